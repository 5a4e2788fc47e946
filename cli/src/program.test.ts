import { describe, expect, test } from "vitest";
import { commandIndex } from "./commands/index.ts";
import { displayWidth } from "./format.ts";
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
  ["nonsense", "unknown command `svc nonsense`"],
  ["deploi", "Did you mean `svc deploy`?"],
  ["depoly --prod", "Did you mean `svc deploy`?"],
  ["stauts --help", "Did you mean `svc status`?"],
  ["help stauts", "Did you mean `svc status`?"],
  ["projcts list", "Did you mean `svc projects list`?"],
  ["project lst", "Did you mean `svc projects list`?"],
  ["admin nodes cordn n1", "Did you mean `svc admin nodes cordon`?"],
  ["projects destory", "unknown command `svc projects destory`"],
  ["registry drop ghcr.io", "Did you mean `svc registry remove`?"],
  ["status --nonsense", "unknown option"],
  ["status extra", "too many arguments"],
  ["projects revoke shop", "unknown command"],
  ["logs --lines", "argument missing"],
  ["projects", "needs a subcommand"],
  ["--json projects", "svc projects list"],
  ["admin node", "svc admin nodes drain"],
  ["projects nonsense --help", "unknown command"],
  ["projects delete", "missing required argument"],
  ["--manifest", "option '--manifest <path>' argument missing"],
  ["-- status", "no command before `--`"],
])("%s is a usage error", async (line, message) => {
  await expect(read(line)).rejects.toMatchObject({
    code: "CLI_INVALID_USAGE",
    message: expect.stringContaining(message),
    hint: expect.stringContaining("--help"),
  });
});

test.each([
  ["destroy", "`svc projects delete <slug>`"],
  ["destroy --help", "`svc projects delete <slug>`"],
  ["destory", "`svc projects delete <slug>`"],
  ["projects destroy shop", "`svc projects delete <slug>`"],
  ["ls", "`svc projects list`"],
  ["secrets set A=1", "`svc env push`"],
  ["config:set A=1", "`svc env push`"],
  ["env set A=1", "`svc env push`"],
  ["auth logout", "`svc logout`"],
  ["logs --tail", "`--follow`"],
  ["logs --tail 50", "`--lines <n>`"],
  ["status --app shop", "`--project <slug>`"],
  ["deploy -v", "`--verbose`"],
])("%s is a habit from elsewhere, and is answered with %s", async (line, advice) => {
  await expect(read(line)).rejects.toMatchObject({ code: "CLI_INVALID_USAGE", hint: expect.stringContaining(advice) });
});

test("-n is the last lines, as elsewhere", async () => {
  expect((await read("logs -n 50")).raw["lines"]).toBe("50");
});

test.each(["", "--help", "-h", "help", "--json", "--manifest a/svc.yml"])("%j asks for help", async (line) => {
  const request = await readCommandLine(line.split(" ").filter((word) => word !== ""));
  expect(request).toMatchObject({ kind: "help", text: expect.stringContaining("admin nodes bootstrap-token create") });
});

test("help sets administration apart", async () => {
  const request = await readCommandLine(["help"]);
  if (request.kind !== "help") throw new Error("no help");
  const [tenants = "", operators = ""] = request.text.split("\nAdministration:\n");
  expect(tenants).toContain("  projects list ");
  expect(tenants).not.toContain("  admin ");
  expect(operators).toContain("  admin nodes list ");
});

test.each([40, 50, 60, 80])("help fits a terminal of %i columns", async (columns) => {
  for (const words of [["help"], ["help", "deploy"], ["logs", "--help"], ["admin", "--help"], ["env", "pull", "-h"]]) {
    const request = await readCommandLine(words, columns);
    if (request.kind !== "help") throw new Error("no help");
    // What is typed stays in one piece: how a command is called, and what is shown as an example.
    const typed = [...commandIndex.map(({ name }) => `  ${name}`), "  -", "Usage:", "  svc ", "Help on", "Version:"];
    const told = request.text.split("\n").filter((line) => !typed.some((each) => line.startsWith(each)));
    expect(told.filter((line) => displayWidth(line) > columns)).toEqual([]);
  }
});

test.each([80, 100])("on %i columns nothing is wider", async (columns) => {
  const request = await readCommandLine(["help"], columns);
  if (request.kind !== "help") throw new Error("no help");
  expect(request.text.split("\n").filter((line) => displayWidth(line) > columns)).toEqual([]);
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
