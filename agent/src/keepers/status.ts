// @pure
import { copyTooLarge } from "@svc/proto";
import { isMoment } from "./moment.ts";

/** What a keeper tells of its copy. All of it is by a program that hears a tenant's server. */
export interface CopyStatus {
  state: "basing" | "following" | "broken";
  /** A sentence; empty for none. */
  problem: string;
  /** Moments by the server's clock; empty before there is one. */
  coveredAt: string;
  position: string;
  bases: readonly { number: number; at: string; bytes: bigint; until: string }[];
}

/** More than the keeper ever writes. */
export const statusMaxBytes = 64 * 1024;
const basesMax = 500;
const states = ["basing", "following", "broken"] as const;

const problems: Readonly<Record<string, string>> = {
  NOT_REACHED: "The server of the database is not reached, or refuses the keeper.",
  REFUSED: "The server keeps no log for the copy.",
  LOG_LOST: "The server has removed log that the copy does not have. Another whole copy is needed.",
  STALLED: "What the server has logged does not arrive.",
  TOO_LARGE: copyTooLarge,
  BASE_FAILED: "A whole copy could not be made.",
  CHANGING:
    "A whole copy could not be made, since definitions were changed or a transaction was prepared meanwhile. It is tried again.",
};

const wholeNumber = /^[0-9]{1,15}$/;
/** An LSN, or GTIDs. */
const place =
  /^(?:[0-9A-F]{1,8}\/[0-9A-F]{1,8}|[0-9]{1,10}-[0-9]{1,10}-[0-9]{1,20}(?:,[0-9]{1,10}-[0-9]{1,10}-[0-9]{1,20}){0,20})$/;

/** Reads the keeper's file `status` (deploy/database/keep.sh); null unless every line of it is as it should be. */
export function readCopyStatus(text: string): CopyStatus | null {
  const lines = text.split("\n");
  if (lines.shift() !== "svc-copy 1" || lines.pop() !== "") return null;
  const facts = new Map<string, string>();
  const bases: CopyStatus["bases"][number][] = [];
  for (const line of lines) {
    const [, name = "", value = ""] = /^([a-z]+) (.+)$/.exec(line) ?? [];
    if (name === "base") {
      const base = readBase(value);
      if (base === null || bases.length >= basesMax) return null;
      bases.push(base);
    } else if (facts.has(name) || !isFact(name, value)) return null;
    else facts.set(name, value);
  }
  const state = states.find((each) => each === facts.get("state"));
  if (state === undefined) return null;
  const problem = facts.get("problem");
  return {
    ...{ state, bases },
    problem: problem === undefined ? "" : (problems[problem] ?? ""),
    coveredAt: facts.get("covered") ?? "",
    position: facts.get("position") ?? "",
  };
}

function isFact(name: string, value: string): boolean {
  if (name === "state") return true;
  if (name === "problem") return Object.hasOwn(problems, value);
  if (name === "covered") return isMoment(value);
  // Where it is in files is for whoever restores it.
  if (name === "place") return /^[0-9A-Za-z./:]{1,60}$/.test(value);
  return name === "position" && place.test(value);
}

function readBase(text: string): CopyStatus["bases"][number] | null {
  const [number = "", at = "", bytes = "", until = "", ...more] = text.split(" ");
  const isWhole = /^[0-9]{6}$/.test(number) && isMoment(at) && wholeNumber.test(bytes) && more.length === 0;
  if (!isWhole || !(until === "-" || isMoment(until))) return null;
  return { number: Number(number), at, bytes: BigInt(bytes), until: until === "-" ? "" : until };
}
