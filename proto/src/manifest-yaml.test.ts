import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { editDistance } from "./edit-distance.ts";
import { parseManifest } from "./manifest-yaml.ts";

const app = "version: 2\napp: { name: Shop, type: ssr }\n";

test("the whole manifest", () => {
  const text = `
version: 2
slug: auto
channel: preview
app:     { name: Shop, type: ssr, port: 8080, replicas: 2 }
source:  { rootDirectory: apps/web }
build:   { command: npm run build }
start:   { command: node server.js }
release:
  command: |
    npm run migrate
    npm run seed
  timeoutSeconds: 300
health:  { path: /up, timeoutSeconds: 30 }
env:     { files: [.env.production] }
database: { enabled: true, engine: postgres }
jobs:
  - { name: nightly, schedule: "0 3 * * *", timezone: Europe/Berlin, command: node jobs/nightly.js, overlap: queue }
dev:     { command: npm run dev, port: 5173 }
`;
  const parsed = parseManifest(text);
  expect(parsed).toMatchObject({
    manifest: {
      channel: "preview",
      app: { port: 8080, replicas: 2 },
      source: { rootDirectory: "apps/web", manifestPath: "svc.yml", watchPaths: ["apps/web/**", "svc.yml"] },
      release: { command: "npm run migrate\nnpm run seed\n" },
      jobs: [{ name: "nightly", timeoutSeconds: 900, retries: 0, overlap: "queue", enabled: true }],
    },
  });
});

test("an image manifest is flat", () => {
  const text = "version: 2\nname: Shop\ntype: ociimage\nport: 80\nimage:\n  reference: nginx:1.27\n";
  expect(parseManifest(text)).toMatchObject({ manifest: { image: { reference: "docker.io/library/nginx:1.27" } } });
});

test("a manifest in a directory builds that directory", () => {
  expect(parseManifest(app, { path: "./apps/web/svc.yml" })).toMatchObject({
    manifest: { source: { rootDirectory: "apps/web", manifestPath: "apps/web/svc.yml" } },
  });
});

describe("problems say what and where", () => {
  test.each([
    {
      when: "a key is misspelled",
      text: `${app}helth: { path: / }\n`,
      says: "helth is not a known key; did you mean health?",
      line: 3,
      column: 1,
    },
    {
      when: "a nested key is misspelled",
      text: "version: 2\napp:\n  name: Shop\n  tpye: ssr\n  type: ssr\n",
      says: "app.tpye is not a known key; did you mean type?",
      line: 4,
      column: 3,
    },
    {
      when: "a key of a job is misspelled",
      text: `${app}jobs:\n  - name: a\n    schedule: "* * * * *"\n    comand: x\n    command: x\n`,
      says: "jobs.0.comand is not a known key; did you mean command?",
      line: 6,
      column: 5,
    },
    {
      when: "a schedule never fires",
      text: `${app}jobs:\n  - name: a\n    schedule: "0 0 31 2 *"\n    command: x\n`,
      says: "never fires: none of its months has that day",
      line: 5,
      column: 15,
    },
    {
      when: "a key is far from any",
      text: `${app}xylophone: 1\n`,
      says: "xylophone is not a known key; known are version, slug,",
      line: 3,
      column: 1,
    },
    {
      when: "case differs",
      text: `${app}health: { timeoutseconds: 3 }\n`,
      says: "did you mean timeoutSeconds?",
      line: 3,
      column: 11,
    },
    {
      when: "something is missing",
      text: "version: 2\napp: { type: ssr }\n",
      says: "app.name is missing",
      line: 2,
      column: 6,
    },
    {
      when: "a value is wrong",
      text: `${app}health:\n  timeoutSeconds: soon\n`,
      says: "health.timeoutSeconds: is not a number",
      line: 4,
      column: 19,
    },
    {
      when: "a derived key is written",
      text: `${app}source: { watchPaths: [a] }\n`,
      says: "source.watchPaths is derived",
      line: 3,
      column: 11,
    },
    { when: "a key is written twice", text: `${app}version: 2\n`, says: "Map keys must be unique", line: 3, column: 1 },
    {
      when: "a tag is not plain YAML",
      text: `${app}slug: !!js/function x\n`,
      says: "Unresolved tag",
      line: 3,
      column: 7,
    },
    {
      when: "a number is too high",
      text: `${app}health: { timeoutSeconds: 9999999 }\n`,
      says: "must be at most",
      line: 3,
      column: 27,
    },
    { when: "tabs indent", text: "app:\n\tname: x\n", says: "Tabs are not allowed", line: 2, column: 1 },
    { when: "there are two documents", text: `${app}---\n${app}`, says: "more than one document", line: 3, column: 1 },
    { when: "the version is a text", text: app.replace("2", '"2"'), says: "version: must be 2", line: 1, column: 10 },
    {
      when: "an image is nested",
      text: app.replace("ssr", "ociimage"),
      says: "an image manifest is flat",
      line: 2,
      column: 26,
    },
  ])("when $when", ({ text, says, line, column }) => {
    const parsed = parseManifest(text);
    if ("manifest" in parsed) throw new Error("accepted");
    expect(parsed.problems[0]).toMatchObject({ message: expect.stringContaining(says), line, column });
  });

  test("all of them at once", () => {
    const parsed = parseManifest("version: 1\napp: { name: Shop, type: sst }\nfoo: 1\nslug: -x\n");
    expect("problems" in parsed && parsed.problems.map(({ line }) => line)).toEqual([1, 4, 2, 3]);
  });
});

describe("hostile text is refused quickly", () => {
  const bomb = ["a: &a [x, x, x, x, x, x, x, x, x]"];
  for (let n = 1; n < 9; n++) {
    const [name, before] = ["abcdefghi"[n], "abcdefghi"[n - 1]];
    bomb.push(`${name}: &${name} [${Array(9).fill(`*${before}`).join(", ")}]`);
  }
  test.each([
    { what: "nothing", text: "" },
    { what: "a comment", text: "# nothing\n" },
    { what: "a number", text: "3" },
    { what: "binary", text: "\u0000\u0001\u0002" },
    { what: "an alias bomb", text: bomb.join("\n") },
    { what: "an alias of itself", text: "&a [*a]" },
    { what: "deep lists", text: "[".repeat(60_000) },
    { what: "deep maps", text: "{a: ".repeat(16_000) },
    { what: "deep dashes", text: "- ".repeat(30_000) },
    { what: "a prototype", text: `${app}__proto__: { polluted: true }\n` },
    { what: "64 KiB and a byte", text: `# ${"x".repeat(64 * 1024 - 1)}` },
  ])("$what", ({ text }) => {
    const parsed = parseManifest(text);
    expect("problems" in parsed && parsed.problems.length).toBeGreaterThan(0);
    expect({}).not.toHaveProperty("polluted");
  });

  test("nothing throws", () => {
    const alphabet = fc.constantFrom(
      "a",
      ":",
      " ",
      "\n",
      "-",
      "[",
      "]",
      "{",
      "}",
      "&a",
      "*a",
      "!",
      "|",
      ">",
      '"',
      "'",
      "#",
      "version: 2",
      "app",
      "?",
      ",",
    );
    fc.assert(
      fc.property(fc.string({ unit: alphabet, maxLength: 60 }), (text) => {
        const parsed = parseManifest(text);
        if ("problems" in parsed) expect(parsed.problems.length).toBeGreaterThan(0);
      }),
      { numRuns: 1000 },
    );
  });

  test.each(["../svc.yml", "/etc/svc.yml", "a\\svc.yml"])("a manifest path %j", (path) => {
    expect(parseManifest(app, { path })).toHaveProperty("problems");
  });
});

test("edit distance is symmetric, zero only for equals, and obeys the triangle", () => {
  const word = fc.stringMatching(/^[a-c]{0,6}$/);
  fc.assert(
    fc.property(word, word, word, (a, b, c) => {
      expect(editDistance(a, b)).toBe(editDistance(b, a));
      expect(editDistance(a, b) === 0).toBe(a === b);
      expect(editDistance(a, c)).toBeLessThanOrEqual(editDistance(a, b) + editDistance(b, c));
    }),
  );
  expect(editDistance("helth", "health")).toBe(1);
});
