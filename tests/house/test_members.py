"""What whoever holds an object may do with it: how many public names a class offers. Those that it inherits in public count, or the bases
have limits of their own."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Folder, limit, with the names of bases.
LIMITS = {"Emitter": ("interp/src/compile", 40, True), "Execution": ("interp/src/ops", 40, False), "State": ("interp/src/ops", 24, True),
          "Binding": ("interp/src/ops", 24, True), "Host": ("interp/src/ops", 16, True), "Log": ("interp/src/ops", 8, True)}


def code(path):
    return re.sub(r"//.*", "", path.read_text())


def definition(name, texts):
    """(bases in public, body) of a class."""
    for text in texts:
        if found := re.search(rf"\b(class|struct) {name}\b(?: final)?\s*(?::([^;{{]*))?\{{", text):
            at, depth = found.end(), 1
            while depth:
                depth += {"{": 1, "}": -1}.get(text[at], 0)
                at += 1
            bases = re.findall(r"public ([\w:]+)", found[2] or "")
            return bases, found[1], text[found.end() : at - 1]
    raise LookupError(name)


def flat(body):
    """The body without what stands in parentheses, braces and angles: a declaration ends with a semicolon."""
    body = re.sub(r"operator\W+\(", "operator(", body)
    while body != (less := re.sub(r"<[^<>;{}]*>", "", body)):
        body = less
    kept, depth = "", 0
    for c in body:
        depth -= c in ")}"
        kept += c if not depth else ""
        depth += c in "({"
        if c == "}" and not depth:
            kept += ";"
    return kept


def public_names(name, texts, with_bases=True):
    bases, kind, body = definition(name, texts)
    public, names = kind == "struct", set()
    for part in re.split(r"\b(public|private|protected):", flat(body)):
        if part in ("public", "private", "protected"):
            public = part == "public"
        elif public:
            for line in part.split(";"):
                if used := re.findall(r"\w+::(\w+)", line) if line.strip().startswith("using") else None:
                    names.update(used)
                elif found := re.match(r"(?:class|struct|enum)\s+(\w+)|[^(={]*?(~?\w+)\s*(?:\(|=|\{|$)", line.strip()):
                    names.add(found[1] or found[2])
    inherited = set().union(*(public_names(b, texts) for b in bases if with_bases))
    return {n for n in names | inherited if n not in (name, "~" + name, "operator")} - {b for b in bases} - {"~" + b for b in bases}


def names_of(name):
    folder, _, with_bases = LIMITS[name]
    return public_names(name, [code(p) for p in sorted((ROOT / folder).rglob("*.h"))], with_bases)


def test_classes_offer_few_names():
    for name, (_, limit, _) in LIMITS.items():
        names = names_of(name)
        assert len(names) <= limit, f"{name} has {len(names)} public members: {' '.join(sorted(names))}"


def test_names_are_counted():
    text = """
    class Base { public: int width() const { return w_; } template <typename T> T& as(); private: int w_; };
    class Hidden { public: void of_nobody(); void lent(int n = 1); };
    struct Class : public Base, protected Hidden { Class(); ~Class(); using Hidden::lent; int field = 0; struct Inner { int no; };
      std::vector<int> list(std::pair<int, int>) const; static constexpr int kLimit = 4; private: void no_more(); };"""
    assert public_names("Class", [text]) == {"width", "as", "lent", "field", "Inner", "list", "kLimit"}
    assert public_names("Class", [text], with_bases=False) == {"lent", "field", "Inner", "list", "kLimit"}
