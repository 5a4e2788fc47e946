import { editDistance } from "@svc/proto";
import { commandIndex, destroying, groupSummaries, means } from "./commands/index.ts";
import { flagHabits, habits } from "./habits.ts";

/** What somebody may have meant: advice in a sentence, or commands in full, which may be none. */
export type Suggestion = { advice: string } | { commands: string[] };

/** Something that may be meant, by how it is spelt. */
interface Candidate {
  spelling: string;
  destroys: boolean;
  meant: Suggestion;
}

const ofCommand = (name: string, spelling = name): Candidate => ({
  spelling,
  destroys: destroying.includes(name),
  meant: { commands: [name] },
});

/** For words that no command begins with. */
export function suggest(typed: readonly string[]): Suggestion {
  const [first = "", ...rest] = typed;
  // `config:set` is how some write it.
  const words = [...first.toLowerCase().split(":"), ...rest];
  const phrase = habits.find((habit) => habit.words.some((each) => each.includes(" ") && beginWith(words, each)));
  const group = groupOf(words);
  const word = group === null ? habits.find((habit) => habit.words.includes(words[0] ?? "")) : undefined;
  const habit = phrase ?? word;
  if (habit !== undefined) return { advice: habit.advice };
  return group === null ? nearest(words, everything) : withinGroup(group, words);
}

const everything: readonly Candidate[] = [
  ...[...commandIndex.map(({ name }) => name), ...Object.keys(groupSummaries)].map((name) => ofCommand(name)),
  ...habits.flatMap(({ words, destroys = false, advice }) =>
    words.map((spelling) => ({ spelling, destroys, meant: { advice } })),
  ),
];

/** Words that people put behind a group when something is to go. */
const endings: readonly string[] = ["del", "destroy", "drop", "purge", "kill"];

function withinGroup(group: string, words: readonly string[]): Suggestion {
  const depth = group.split(" ").length;
  const below = commandIndex
    .filter(({ name }) => name.startsWith(`${group} `) && name.split(" ").length === depth + 1)
    .map(({ name }) => ofCommand(name, name.split(" ")[depth]));
  const word = words[depth] ?? "";
  if (endings.includes(word)) return together(below.filter(({ destroys }) => destroys));
  return nearest([word], below);
}

/** What is spelt nearly so; nothing where only some of that destroys. */
function nearest(words: readonly string[], candidates: readonly Candidate[]): Suggestion {
  const near = candidates.flatMap((candidate) => {
    const typed = words.slice(0, candidate.spelling.split(" ").length).join(" ");
    const distance = isSwapped(typed, candidate.spelling) ? 1 : editDistance(typed, candidate.spelling);
    return distance <= tolerance(typed) ? [{ ...candidate, distance }] : [];
  });
  const least = Math.min(...near.map(({ distance }) => distance));
  const nearby = near.filter(({ distance }) => distance === least);
  // A command in full says more than its group.
  const depth = Math.max(...nearby.map(({ spelling }) => spelling.split(" ").length));
  const best = nearby.filter(({ spelling }) => spelling.split(" ").length === depth);
  return best.every(({ destroys }) => destroys === best[0]?.destroys) ? together(best) : { commands: [] };
}

/** Whether two neighbouring letters changed places. */
function isSwapped(typed: string, spelling: string): boolean {
  const at = [...typed].findIndex((letter, index) => letter !== spelling[index]);
  const swapped = `${typed.slice(0, at)}${typed[at + 1] ?? ""}${typed[at] ?? ""}${typed.slice(at + 2)}`;
  return at !== -1 && swapped === spelling;
}

const tolerance = (word: string): number => (word.length <= 3 ? 1 : 2);

/** The commands that are meant; where there is none, the advice. */
function together(candidates: readonly Candidate[]): Suggestion {
  const commands = candidates.flatMap(({ meant }) => ("commands" in meant ? meant.commands : []));
  const advice = candidates.map(({ meant }) => meant).find((meant) => "advice" in meant);
  return commands.length === 0 && advice !== undefined ? advice : { commands };
}

/** Whether the words begin with those of `phrase`, or with other words for them. */
export const beginWith = (words: readonly string[], phrase: string): boolean =>
  phrase.split(" ").every((word, at) => means(words[at] ?? "", word));

/** The deepest group of commands that the words begin with, or null. */
export const groupOf = (words: readonly string[]): string | null =>
  Object.keys(groupSummaries)
    .filter((group) => beginWith(words, group))
    .sort((left, right) => right.length - left.length)[0] ?? null;

/** What says the same as `flag`, which a command with the flags `known` does not have; null when nobody knows. */
export const flagAdvice = (flag: string, known: readonly string[]): string | null =>
  flagHabits.find(({ flags, here }) => flags.includes(flag) && known.includes(here))?.advice ?? null;
