// Starts `pallasim dap`, which does all the rest.
const vscode = require("vscode");

exports.activate = (context) =>
  context.subscriptions.push(
    vscode.debug.registerDebugAdapterDescriptorFactory("pallasim", {
      createDebugAdapterDescriptor: () =>
        new vscode.DebugAdapterExecutable(vscode.workspace.getConfiguration("pallasim").get("program", "pallasim"), ["dap"]),
    }),
  );
