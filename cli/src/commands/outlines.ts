import type { Command } from "../command.ts";
import { commandIndex } from "./index.ts";

/** What a list of commands shows of each. */
export interface Outline {
  readonly name: string;
  readonly summary: string;
  /** `spec` and `summary` of each positional argument, in order. */
  readonly arguments: readonly { readonly spec: string; readonly summary: string }[];
}

export const outlineOf = ({ name, summary, arguments: taken }: Command): Outline => ({
  name,
  summary,
  arguments: Object.values(taken).map((each) => ({ spec: each.spec, summary: each.summary })),
});

/**
 * Every command as help lists it, in the order of the index. The sources have to load all commands for it; the build
 * puts the finished list in place of this file, so that the published program loads none.
 */
export const outlines = async (): Promise<readonly Outline[]> =>
  (await Promise.all(commandIndex.map(({ load }) => load()))).map(outlineOf);
