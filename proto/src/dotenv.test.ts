import { parse } from "dotenv";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { dotenvText, dotenvValue, parseDotenv } from "./dotenv.ts";

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
