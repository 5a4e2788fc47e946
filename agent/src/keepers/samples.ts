// @pure
import { create } from "@bufbuild/protobuf";
import { type CopySample, CopySample_State, CopySampleSchema } from "@svc/proto/node";
import type { CopyStatus } from "./status.ts";

const states = {
  basing: CopySample_State.BASING,
  following: CopySample_State.FOLLOWING,
  broken: CopySample_State.BROKEN,
} as const satisfies Record<CopyStatus["state"], CopySample_State>;

/** What control is told of a copy. `bytes`: what it took when that was measured last. */
export const copySample = (
  copyId: string,
  { state, problem, coveredAt, position, bases }: CopyStatus,
  { at, bytes }: { at: string; bytes: number },
): CopySample =>
  create(CopySampleSchema, {
    ...{ copyId, at, state: states[state], problem, coveredAt, position },
    bases: bases.map((base) => ({ ...base })),
    bytes: BigInt(bytes),
  });

/** Whether control is to hear of it before its time: time passes for every copy, and only what else is another is news. */
export const isNews = (told: CopySample | undefined, now: CopySample): boolean =>
  told === undefined || textOf(told) !== textOf(now);

const textOf = ({ state, problem, position, bases }: CopySample): string =>
  JSON.stringify([state, problem, position, bases.map(({ number, until }) => [number, until])]);
