import { describe, expect, test } from "vitest";
import { commandIndex } from "./commands/index.ts";
import { operationOf, readCommandLine } from "./program.ts";

/** What a line is read as: globals and what the command was given. */
async function read(line: string) {
  const request = await readCommandLine(line.split(" ").filter((word) => word !== ""));
  if (request.kind === "help") throw new Error(request.text);
  return { name: request.command.name, globals: request.globals, raw: request.raw };
}

const defaults = {
  manifest: "svc.yml",
  manifestNamed: false,
  json: false,
  yes: false,
  verbose: false,
  quiet: false,
  noColor: false,
};

test("global options count before and after the command", async () => {
  const globals = { ...defaults, json: true, manifest: "a/svc.yml", manifestNamed: true, noColor: true };
  expect(await read("--json --manifest a/svc.yml status --no-color")).toMatchObject({ name: "status", globals });
  expect(await read("status --no-color --manifest a/svc.yml --json")).toMatchObject({ name: "status", globals });
  expect(await read("status")).toMatchObject({ globals: defaults });
});

test.each([
  ["projects ls", "projects list"],
  ["project list", "projects list"],
  ["projects rm shop", "projects delete"],
  ["projects remove shop", "projects delete"],
  ["admin node ls", "admin nodes list"],
  ["registry rm ghcr.io", "registry remove"],
  ["registry ls", "registry list"],
  ["preview rm 42", "previews delete"],
  ["token ls", "tokens list"],
  ["tokens delete 42", "tokens revoke"],
  ["admin nodes bootstrap-token add --file x", "admin nodes bootstrap-token create"],
])("%s is understood as %s", async (line, name) => {
  expect((await read(line)).name).toBe(name);
  expect(operationOf(line.split(" "))).toBe(name.replaceAll(" ", "."));
});

test("a command gets what was typed, by its own names", async () => {
  expect((await read("logs 123 -f --runtime --lines 5")).raw).toEqual({
    deploymentId: "123",
    follow: true,
    runtime: true,
    lines: "5",
    project: undefined,
    since: undefined,
    grep: undefined,
  });
  expect((await read("stop --no-wait")).raw).toMatchObject({ wait: false });
  expect((await read("stop")).raw).toMatchObject({ wait: true });
});

test.each([
  ["nonsense", "unknown command"],
  ["deploi", "Did you mean deploy?"],
  ["status --nonsense", "unknown option"],
  ["status extra", "too many arguments"],
  ["projects revoke shop", "unknown command"],
  ["logs --lines", "argument missing"],
  ["projects", "needs a subcommand"],
  ["projects nonsense", "unknown command"],
  ["projects delete", "missing required argument"],
])("%s is a usage error", async (line, message) => {
  await expect(read(line)).rejects.toMatchObject({
    code: "CLI_INVALID_USAGE",
    message: expect.stringContaining(message),
    hint: expect.stringContaining("--help"),
  });
});

test.each(["", "--help", "-h", "help", "--json"])("%j asks for help", async (line) => {
  const request = await readCommandLine(line.split(" ").filter((word) => word !== ""));
  expect(request).toMatchObject({ kind: "help", text: expect.stringContaining("admin nodes bootstrap-token create") });
});

test.each(["deploy --help", "help deploy", "--json help deploy"])("%j explains one command", async (line) => {
  const request = await readCommandLine(line.split(" "));
  expect(request).toMatchObject({ kind: "help", text: expect.stringContaining("--dry-run") });
});

test.each([
  ["env pull", ["env:read", "projects:read"]],
  ["env push", ["env:write", "projects:read", "env:read"]],
])("help on %s says which scopes a key needs", async (line, scopes) => {
  const request = await readCommandLine([...line.split(" "), "--help"]);
  if (request.kind !== "help") throw new Error("no help");
  for (const scope of scopes) expect(request.text).toContain(scope);
});

describe("the command", () => {
  test.each(commandIndex.map((entry) => [entry.name, entry] as const))(
    "%s is itself, and its examples run",
    async (name, entry) => {
      const command = await entry.load();
      expect(command.name).toBe(name);
      expect(command.examples.length).toBeGreaterThan(0);
      for (const example of command.examples) {
        const words = [...example.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare ?? "");
        expect(words.shift()).toBe("svc");
        const request = await readCommandLine(words);
        expect(request).toMatchObject({ kind: "run", command: { name } });
      }
    },
  );
});

test.each([
  ["nonsense --json", "svc"],
  ["projects", "projects"],
  ["admin nodes", "admin.nodes"],
  ["admin node", "admin.nodes"],
  ["admin nodes bootstrap-token create --file x", "admin.nodes.bootstrap-token.create"],
  ["--manifest deploy status", "status"],
  ["env push --file deploy", "env.push"],
])("%j is the operation %s", (line, operation) => {
  expect(operationOf(line.split(" "))).toBe(operation);
});
