import { parse } from "dotenv";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { dotenvText, dotenvValue, parseDotenv, withDotenvVariable } from "./dotenv.ts";

const name = fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_]{0,12}$/).filter((each) => each !== "__proto__");
const tricky = fc
  .array(
    fc.constantFrom("'", '"', "`", "\\", "\n", "\r", "\\n", "#", "$", "=", " ", "a", "export ", "{X}", "€", "\t"),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(""));

/** The variables of a text, the last of each name; null when it is refused. */
function read(text: string): Record<string, string> | null {
  const found = parseDotenv(text);
  return "badLines" in found ? null : Object.fromEntries(found.variables.map((each) => [each.name, each.value]));
}

describe("writing", () => {
  test("what is written is read back as the same text, by us and by the package that everybody uses", () => {
    fc.assert(
      fc.property(fc.dictionary(name, fc.oneof(tricky, fc.string())), (vars) => {
        const written = dotenvText(vars);
        if ("text" in written) {
          expect({ ...parse(written.text) }).toEqual({ ...vars });
          expect(read(written.text)).toEqual({ ...vars });
        } else for (const each of written.unfit) expect(dotenvValue(vars[each] ?? "")).toBeNull();
      }),
      { numRuns: 2000 },
    );
  });

  test.each([
    ["plain", "plain"],
    ["", ""],
    ["with space", "'with space'"],
    ["it's", "`it's`"],
    ["line\nbreak", "'line\nbreak'"],
    ["cr\r\n", '"cr\\r\\n"'],
    ["$HOME #x", "'$HOME #x'"],
  ])("%j is written as %s", (value, text) => {
    expect(dotenvValue(value)).toBe(text);
  });

  test("a value that the format cannot hold is named, not mangled", () => {
    expect(dotenvText({ GOOD: "1", BAD: "'`\"" })).toEqual({ unfit: ["BAD"] });
  });

  test("names are sorted, so that the same variables make the same file", () => {
    expect(dotenvText({ B: "2", A: "1" })).toEqual({ text: "A=1\nB=2\n" });
  });
});

describe("reading", () => {
  test.each<{ when: string; text: string; vars: Record<string, string> }>([
    { when: "plain lines", text: "A=1\nB = two words \n\n# no\nC=\n", vars: { A: "1", B: "two words", C: "" } },
    {
      when: "Windows line ends and a byte order mark",
      text: "\ufeffA=1\r\nB='x\r\ny'\r\n",
      vars: { A: "1", B: "x\ny" },
    },
    { when: "export, and a colon", text: "export A=1\nB: 2\n", vars: { A: "1", B: "2" } },
    { when: "comments behind values", text: "A=1 # one\nB='2 # two' # two\n", vars: { A: "1", B: "2 # two" } },
    { when: "quotes", text: `A="a\\nb"\nB='a\\nb'\nC=\`it's "c"\`\n`, vars: { A: "a\nb", B: "a\\nb", C: `it's "c"` } },
    {
      when: "a value over lines",
      text: 'KEY="-----BEGIN\nMIIB==\n-----END"\nB=2',
      vars: { KEY: "-----BEGIN\nMIIB==\n-----END", B: "2" },
    },
    { when: "a name given twice", text: "A=1\nA=2\n", vars: { A: "2" } },
    { when: "nothing substituted", text: "A=$HOME/$B\n", vars: { A: "$HOME/$B" } },
    { when: "nothing", text: "", vars: {} },
  ])("$when", ({ text, vars }) => {
    expect(read(text)).toEqual(vars);
    expect({ ...parse(text) }).toEqual(vars);
  });

  test.each([
    { when: "no assignment", text: "A=1\nhello\nB=2\n", lines: [2] },
    { when: "an unclosed quote", text: 'A="one\nB=2\n', lines: [1] },
    { when: "something behind a quote", text: "A='one'two\n", lines: [1] },
    { when: "a key without a name", text: "=1\n", lines: [1] },
    { when: "binary", text: "\u0000\u0001\n", lines: [1] },
  ])("a line with $when is told by its number", ({ text, lines }) => {
    expect(parseDotenv(text)).toEqual({ badLines: lines });
  });

  test("whatever is not refused is what the package reads", () => {
    const line = fc
      .array(
        fc.constantFrom("A", "B", "=", ":", " ", "\t", "'", '"', "`", "\\", "\\n", "#", "\n", "\r\n", "export ", "x"),
        { maxLength: 40 },
      )
      .map((parts) => parts.join(""));
    fc.assert(
      fc.property(line, (text) => {
        const ours = read(text);
        if (ours !== null) expect({ ...parse(text) }).toEqual(ours);
      }),
      { numRuns: 20_000 },
    );
  });

  test.each([
    { what: "line ends", text: "\n".repeat(65_536) },
    { what: "spaces", text: " ".repeat(65_536) },
    { what: "open quotes", text: `A='\\'\n`.repeat(9_000) },
    { what: "one long name", text: "A".repeat(65_536) },
    { what: "closed quotes with something behind", text: "A='' x\n".repeat(9_000) },
  ])("64 KiB of $what take no time", ({ text }) => {
    // What it took of the processor: others on the machine may make it last.
    const before = process.cpuUsage();
    parseDotenv(text);
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1000).toBeLessThan(1000);
  });
});

describe("a variable that is put into a file", () => {
  test.each([
    { when: "there is none", text: "", is: "K=new\n" },
    { when: "it is not there", text: "A=1\n", is: "A=1\nK=new\n" },
    { when: "the last line has no end", text: "A=1", is: "A=1\nK=new\n" },
    { when: "lines end as on Windows", text: "A=1\r\nB=2\r\n", is: "A=1\r\nB=2\r\nK=new\r\n" },
    { when: "it is there", text: "# mine\nA=1\nK=old # why\n\nB='2'\n", is: "# mine\nA=1\nK=new\n\nB='2'\n" },
    { when: "lines of Windows have it", text: "K=old\r\nA=1\r\n", is: "K=new\r\nA=1\r\n" },
    { when: "it is exported", text: "export K = old\nA=1", is: "export K=new\nA=1" },
    { when: "it has several lines", text: "A=1\nK='a\nb\n'\nB=2\n", is: "A=1\nK=new\nB=2\n" },
    { when: "another's value has its name", text: "A='\nK=old\n'\n", is: "A='\nK=old\n'\nK=new\n" },
    { when: "it is there twice", text: "K=1\nA=1\nK=2\n", is: "K=new\nA=1\nK=new\n" },
    { when: "a comment has it", text: "#K=old\n", is: "#K=old\nK=new\n" },
    { when: "a line is no assignment", text: "what?\nK=old\n", is: "what?\nK=new\n" },
    { when: "a byte order mark comes first", text: "\ufeffK=old\n", is: "\ufeffK=new\n" },
    { when: "only a byte order mark is there", text: "\ufeff", is: "\ufeffK=new\n" },
    { when: "another one's name begins so", text: "KEY=1\n", is: "KEY=1\nK=new\n" },
  ])("when $when", ({ text, is }) => {
    expect(withDotenvVariable(text, "K", "new")).toBe(is);
  });

  test("is read back, and all else as it was, whatever is in the file", () => {
    const line = fc.constantFrom(
      "A=1",
      "B='x y'",
      "# K=1",
      "",
      "K=old",
      "export K='o",
      "p'",
      "junk",
      'C="a\\nb"',
      "D=`",
      "`",
    );
    const file = fc
      .tuple(fc.array(line, { maxLength: 8 }), fc.constantFrom("\n", "\r\n"))
      .map(([lines, end]) => lines.join(end));
    fc.assert(
      fc.property(
        file,
        fc.constantFrom("plain", "postgres://u:p@[::1]:5/d?x=1", "it's", 'a"b', "$HOME"),
        (text, value) => {
          const made = withDotenvVariable(text, "K", value) ?? "";
          const before = parseDotenv(text);
          if ("badLines" in before) return;
          const after = parseDotenv(made);
          if ("badLines" in after) throw new Error(`lines ${after.badLines} of ${JSON.stringify(made)}`);
          const others = (file: typeof before) =>
            file.variables.filter(({ name }) => name !== "K").map(({ name, value }) => [name, value]);
          expect(others(after)).toEqual(others(before));
          expect(after.variables.findLast(({ name }) => name === "K")?.value).toBe(value);
          expect(withDotenvVariable(made, "K", value)).toBe(made);
        },
      ),
      { numRuns: 2000 },
    );
  });
});
