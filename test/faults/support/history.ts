// @pure
import { z } from "zod";

/** What was done and seen while faults happened, one JSON line each; all times by one clock that only grows. */
const operation = z.discriminatedUnion("op", [
  /**
   * Versions are numbered in the order in which they were asked for, one after the other. `refused`: it was told that the
   * one before goes on; `unknown`: whoever asked was cut off, or waited in vain.
   */
  z.object({
    op: z.literal("deploy"),
    ...{ version: z.int(), outcome: z.enum(["acknowledged", "refused", "unknown"]) },
    ...{ startMs: z.number(), endMs: z.number() },
  }),
  /** A visitor got this version. */
  z.object({ op: z.literal("read"), version: z.int(), startMs: z.number(), endMs: z.number() }),
  /** A machine did the work of a placement that only one may do; `endMs` null: it still does. */
  z.object({
    op: z.literal("hold"),
    ...{ placement: z.string(), machine: z.string() },
    ...{ startMs: z.number(), endMs: z.number().nullable() },
  }),
]);
export type Operation = z.infer<typeof operation>;

export const toLines = (history: readonly Operation[]): string =>
  history.map((each) => `${JSON.stringify(each)}\n`).join("");

/** Throws when a line is not an operation. */
export const fromLines = (text: string): Operation[] =>
  text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => operation.parse(JSON.parse(line)));

/** Everything in the history that cannot be, in words; none when all is well. */
export const violations = (history: readonly Operation[]): string[] => [
  ...staleReads(history),
  ...refusedReads(history),
  ...twoHolders(history),
];

type Of<Op extends Operation["op"]> = Extract<Operation, { op: Op }>;
const only = <Op extends Operation["op"]>(history: readonly Operation[], op: Op): Of<Op>[] =>
  history.filter((each): each is Of<Op> => each.op === op);

/**
 * A read that begins after a deploy was acknowledged sees it or a later one, whoever else read what meanwhile; and no read sees
 * what nobody had asked for by then.
 */
function staleReads(history: readonly Operation[]): string[] {
  const deploys = only(history, "deploy");
  return only(history, "read").flatMap(({ version, startMs, endMs }) => {
    const acknowledged = deploys.filter((each) => each.outcome === "acknowledged" && each.endMs < startMs);
    const newest = Math.max(Number.NEGATIVE_INFINITY, ...acknowledged.map((each) => each.version));
    const from = deploys.find((each) => each.version === version);
    if (version < newest) return [`at ${startMs} version ${version} was read, after ${newest} was acknowledged`];
    if (from === undefined || from.startMs > endMs)
      return [`at ${endMs} version ${version} was read, which nobody had deployed`];
    return [];
  });
}

/** Once somebody got an older version again, after a deploy was refused, nobody gets the refused one any more. */
function refusedReads(history: readonly Operation[]): string[] {
  const reads = only(history, "read");
  return only(history, "deploy")
    .filter(({ outcome }) => outcome === "refused")
    .flatMap(({ version, endMs }) => {
      const older = reads.filter((each) => each.startMs > endMs && each.version < version);
      const gone = Math.min(Number.POSITIVE_INFINITY, ...older.map((each) => each.endMs));
      return reads
        .filter((each) => each.version === version && each.startMs > gone)
        .map(({ startMs }) => `at ${startMs} version ${version} was read, which was refused and had gone`);
    });
}

/** Two holds of a placement that only one may have are never at the same time, also on one machine. */
function twoHolders(history: readonly Operation[]): string[] {
  const holds = only(history, "hold").toSorted((a, b) => a.startMs - b.startMs);
  return holds.flatMap((later, index) =>
    holds
      .slice(0, index)
      .filter(
        ({ placement, endMs }) => placement === later.placement && (endMs ?? Number.POSITIVE_INFINITY) > later.startMs,
      )
      .map(({ machine }) => `at ${later.startMs} ${later.machine} held ${later.placement}, and so did ${machine}`),
  );
}
