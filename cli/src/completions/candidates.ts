import type { Argument, Command, Flag } from "../command.ts";
import { commandIndex, groupSummaries, means } from "../commands/index.ts";
import type { Host } from "../host.ts";
import { globalOptions } from "../program.ts";
import type { Ask, Candidate } from "./candidate.ts";

/**
 * What may stand in place of the last of `words`, which is typed in part or not at all. Empty where anything may, so
 * that the shell offers files.
 */
export async function candidatesFor(words: readonly string[], ask: Ask = async () => []): Promise<Candidate[]> {
  const current = words.at(-1) ?? "";
  const before = words.slice(0, -1);
  const path = before.filter((word, at) => !word.startsWith("-") && before[at - 1] !== "--manifest");
  const all = await possible(path, { previous: before.at(-1) ?? "", current, ask });
  return all.filter(({ word }) => word.startsWith(current));
}

async function possible(
  path: readonly string[],
  { previous, current, ask }: { previous: string; current: string; ask: Ask },
): Promise<Candidate[]> {
  const entry = commandIndex.find(({ name }) => isBelow(path, name.split(" ")));
  if (entry === undefined) {
    return current.startsWith("-") ? globals : nextWords(path);
  }
  const command = await entry.load();
  const flags = Object.values(command.flags);
  const awaited = flags.find((flag) => takesValue(flag) && spellings(flag).includes(previous));
  if (awaited !== undefined) return choicesOf(awaited);
  if (current.startsWith("-")) return [...flags.map(asCandidate), ...globals];
  const argument = argumentAt(command, path.length - entry.name.split(" ").length);
  return argument?.completes === undefined ? choicesOf(argument) : ask(argument.completes);
}

/** Whether the words name the command whose words `name` are, whatever follows. */
const isBelow = (path: readonly string[], name: readonly string[]): boolean =>
  name.every((word, at) => means(path[at] ?? "", word));

/** The words with which a command goes on whose first words are `path`. */
async function nextWords(path: readonly string[]): Promise<Candidate[]> {
  const next = new Map<string, Candidate>();
  for (const { name, load } of commandIndex) {
    const words = name.split(" ");
    const word = words[path.length];
    if (word === undefined || next.has(word) || !isBelow(path, words.slice(0, path.length))) continue;
    const group = words.slice(0, path.length + 1).join(" ");
    next.set(word, { word, about: groupSummaries[group] ?? (await load()).summary });
  }
  return [...next.values()];
}

const argumentAt = (command: Command, at: number): Argument<unknown> | undefined =>
  Object.values(command.arguments)[Math.max(0, at)];

const choicesOf = (taken: Flag<unknown> | Argument<unknown> | undefined): Candidate[] =>
  (taken?.choices ?? []).map((word) => ({ word, about: "" }));

/** `-f, --follow` is `-f` and `--follow`. */
const spellings = ({ spec }: { spec: string }): string[] => spec.match(/(?<![\w-])--?[a-z][a-z-]*/g) ?? [];
const takesValue = ({ spec }: { spec: string }): boolean => spec.includes("<");
const asCandidate = (option: { spec: string; summary: string }): Candidate => ({
  word: spellings(option).at(-1) ?? option.spec,
  about: option.summary,
});
const globals: Candidate[] = globalOptions.map(([spec, summary]) => asCandidate({ spec, summary }));

/** A line per candidate: the word, a tab, what it is about. A script that asked cannot show an error, so there is none. */
export async function printCandidates(words: readonly string[], host: Host): Promise<number> {
  const candidates = await candidatesFor(words, async (what) => {
    const { askPlatform } = await import("./ask.ts");
    return askPlatform(what, host);
  });
  host.stdout.write(candidates.map(({ word, about }) => `${word}\t${about}\n`).join(""));
  return 0;
}
