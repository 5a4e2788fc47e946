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
  ["admin nodes bootstrap-token ", ["create"]],
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

test("every command is reached by what is offered, word by word", async () => {
  for (const { name } of commandIndex) {
    const path = name.split(" ");
    for (const [at, word] of path.entries()) expect(await words([...path.slice(0, at), ""].join(" "))).toContain(word);
  }
});

test("each says what it is about", async () => {
  for (const { about } of await candidatesFor([""])) expect(about).toMatch(/\w/);
});
