import { expect, test } from "vitest";
import { commandIndex, destroying, groupSummaries } from "./commands/index.ts";
import { flagHabits, habits } from "./habits.ts";
import { suggest } from "./suggest.ts";

/** The commands that a text names in backticks, in full. */
const named = (text: string): string[] =>
  [...text.matchAll(/`svc ([^`<-]+)/g)].map(([, words = ""]) => words.trim()).filter((words) => words !== "");

test.each(habits.map((habit) => [habit.words[0], habit] as const))("the advice on %s is about commands", (_, habit) => {
  const names = commandIndex.map(({ name }) => name);
  for (const name of named(habit.advice)) expect(names).toContain(name);
  expect(habit.advice).not.toMatch(/\.$/);
});

test.each(habits.map((habit) => [habit.words[0], habit] as const))(
  "nobody who types %s is led to another kind of command",
  (_, { destroys = false, advice }) => {
    for (const name of named(advice)) expect(destroying.includes(name)).toBe(destroys);
  },
);

test("a word has one meaning, and is no command", () => {
  const words = habits.flatMap((habit) => habit.words);
  expect(words.filter((word, at) => words.indexOf(word) !== at)).toEqual([]);
  const taken = [...commandIndex.map(({ name }) => name), ...Object.keys(groupSummaries)];
  expect(words.filter((word) => taken.includes(word))).toEqual([]);
  const flags = flagHabits.flatMap((habit) => habit.flags);
  expect(flags.filter((flag, at) => flags.indexOf(flag) !== at)).toEqual([]);
});

test("what destroys is a command", () => {
  const names = commandIndex.map(({ name }) => name);
  for (const name of destroying) expect(names).toContain(name);
});

test.each([
  // As near to something that destroys as to something that does not.
  [["det"], []],
  [["rn"], []],
  [["zzzzzz"], []],
  [["tokens", "purge"], ["tokens revoke"]],
  [
    ["admin", "nodes", "destroy"],
    ["admin nodes force-fence", "admin nodes remove"],
  ],
  [["statu"], ["status"]],
  [["lgos"], ["logs"]],
  [["rollbak"], ["rollback"]],
])("%j may mean %j", (words, commands) => {
  expect(suggest(words)).toEqual({ commands });
});
