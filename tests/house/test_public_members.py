"""Who has an object of a large type must look through its public members: there are not more of them than here, its bases' counted
with them or by themselves. Types nested in it, constructors and operators are not members to look through; overloads are one."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2] / "interp" / "src"
OPEN, CLOSE = "({[", ")}]"


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def body_of(name, text):
    """(bases, what stands between the braces, whether it begins public) of the type; None: it is not defined here."""
    found = re.search(rf"^(struct|class) {name}\b([^;{{]*)\{{", text, re.M)
    if not found:
        return None
    bases = re.findall(r"(?:public )?([A-Z]\w*)", found[2].replace("final", ""))
    depth, end = 1, found.end()
    while depth:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    return bases, text[found.end() : end - 1], found[1] == "struct"


def declarations(body):
    """Statements of the type's own scope, without what their braces and parentheses hold."""
    text, depth, ended = "", 0, False
    for at, c in enumerate(body):
        if c in OPEN:
            text += c if depth == 0 else ""
            depth += 1
        elif c in CLOSE:
            depth -= 1
            text += c if depth == 0 else ""
            rest = body[at + 1 :].lstrip()
            ended = c == "}" and depth == 0 and not rest.startswith((";", ","))
        elif depth == 0:
            text += c
            ended = c == ";" or (c == ":" and re.search(r"\b(public|private|protected):$", text) is not None)
        if ended:
            yield " ".join(text.split())
            text, ended = "", False


def without_templates(text):
    while (less := re.sub(r"<[^<>]*>", "", text)) != text:
        text = less
    return text


def names_of(declaration, type_name):
    d = without_templates(declaration.rstrip("; {}")).replace("template ", "")
    if re.match(r"(struct|class|enum|union|using|friend|static_assert)\b", d) or "operator" in d or re.search(rf"~?\b{type_name}\(", d):
        return []
    if "(" in d.split("=")[0]:
        return re.findall(r"(\w+)\(", d)[:1]
    return [re.findall(r"\w+", re.split(r"[={\[]", part)[0])[-1] for part in d.split(",")]


def members(name, text):
    """The type's own public members, and its bases."""
    bases, body, public = body_of(name, text)
    found = []
    for d in declarations(body):
        if label := re.search(r"\b(public|private|protected):$", d):
            public = label[1] == "public"
        elif public:
            found += names_of(d, name)
    return sorted(set(found)), bases


def all_members(name):
    """Those of the type's bases, too."""
    for header in sorted(ROOT.rglob("*.h")):
        text = without_comments(header.read_text())
        if body_of(name, text):
            own, bases = members(name, text)
            return own + [m for b in bases for m in all_members(b)]
    return []


def own_members(name):
    text = next(t for h in sorted(ROOT.rglob("*.h")) if body_of(name, t := without_comments(h.read_text())))
    return members(name, text)[0]


@pytest.mark.parametrize("name, most", [("Execution", 40), ("State", 24), ("Binding", 24), ("Host", 16), ("Log", 8)])
def test_members_of_its_own(name, most):
    own = own_members(name)
    assert len(own) <= most, f"{name} has {len(own)} public members: {', '.join(own)}"


# Lower the number when it has become less.
@pytest.mark.parametrize("name, most", [("Emitter", 77)])
def test_members_with_those_of_its_bases(name, most):
    every = all_members(name)
    assert len(every) <= most, f"{name} has {len(every)} public members: {', '.join(every)}"


def test_members_are_seen():
    text = without_comments(
        """struct Base {
  int a;
};
class Some : public Base, private std::vector<Other> {
 public:
  Some() : x_(1) {}
  ~Some();
  // one(), of nobody
  int b = 1, c[2] = {3, 4};
  std::map<int, std::pair<int, int>> d{};
  struct Nested {
    int no;
  };
  template <class F>
  int one(F f, int default_ = g(2)) const { return f(default_); }
  int one();
  std::function<int(int)> e;
  bool operator==(const Some&) const = default;
  static constexpr int kF = 3;

 private:
  int x_;
};
"""
    )
    assert members("Some", text) == (["b", "c", "d", "e", "kF", "one"], ["Base", "Other"])
    assert members("Base", text) == (["a"], [])
