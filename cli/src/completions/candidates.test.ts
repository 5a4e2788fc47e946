import { expect, test } from "vitest";
import { commandIndex } from "../commands/index.ts";
import { candidatesFor } from "./candidates.ts";

const words = async (line: string) => (await candidatesFor(line.split(" "))).map(({ word }) => word);

test.each([
  ["pro", ["promote", "projects"]],
  ["projects ", ["list", "rename", "delete"]],
  ["project ", ["list", "rename", "delete"]],
  ["--json projects re", ["rename"]],
  ["--manifest projects dep", ["deploy"]],
  ["admin nodes bootstrap-token ", ["list", "revoke", "create"]],
  ["admin nodes la", ["label"]],
  ["admin nodes label node-1 di", []],
  ["deploy --pr", ["--project", "--prod", "--preview"]],
  ["deploy --js", ["--json"]],
  ["doctor --channel ", ["production", "preview", "dev"]],
  ["doctor --channel p", ["production", "preview"]],
  ["completions ", ["bash", "zsh", "fish"]],
  ["env push --file ", []],
  ["status ", []],
  ["nonsense ", []],
])("after %j may come %j", async (line, expected) => {
  expect(await words(line)).toEqual(expected);
});

test("the name of a machine is asked for where one is to be named", async () => {
  const asked: string[] = [];
  const ask = async (what: string) => {
    asked.push(what);
    return ["node-1", "node-2", "edge"].map((word) => ({ word, about: "" }));
  };
  const offered = async (line: string) => (await candidatesFor(line.split(" "), ask)).map(({ word }) => word);
  expect(await offered("admin nodes drain no")).toEqual(["node-1", "node-2"]);
  expect(await offered("admin nodes show ")).toEqual(["node-1", "node-2", "edge"]);
  expect(asked).toEqual(["nodes", "nodes"]);
  expect(await offered("admin nodes label e")).toEqual(["edge"]);
  expect(await offered("admin nodes label edge ")).toEqual([]);
  expect(await offered("admin nodes drain --rea")).toEqual(["--reason"]);
  expect(await offered("admin nodes list ")).toEqual([]);
  expect(asked).toHaveLength(3);
});

test("every command is reached by what is offered, word by word", async () => {
  for (const { name } of commandIndex) {
    const path = name.split(" ");
    for (const [at, word] of path.entries()) expect(await words([...path.slice(0, at), ""].join(" "))).toContain(word);
  }
});

test("each says what it is about", async () => {
  for (const { about } of await candidatesFor([""])) expect(about).toMatch(/\w/);
});
