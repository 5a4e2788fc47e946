// @pure
import type { OperatorCheck, OperatorCheckName, OperatorCheckStatus } from "@svc/proto";

/** One thing that a check found. */
export interface Finding {
  status: OperatorCheckStatus;
  /** A sentence. */
  text: string;
  /** What to do about it; null for what is well. */
  hint: string | null;
}

export const ok = (text: string): Finding => ({ status: "ok", text, hint: null });
export const warn = (text: string, hint: string): Finding => ({ status: "warn", text, hint });
export const fail = (text: string, hint: string): Finding => ({ status: "fail", text, hint });

const severity: readonly OperatorCheckStatus[] = ["fail", "warn", "ok"];
/** What is beyond is only counted. */
const moreMax = 20;

/** The findings of one check, the worst first. */
export function checkOf(name: OperatorCheckName, findings: readonly Finding[]): OperatorCheck {
  const [worst, ...others] = severity.flatMap((status) => findings.filter((each) => each.status === status));
  if (worst === undefined) return { name, status: "ok", detail: "There is nothing to look at.", hint: null, more: [] };
  const told = others.slice(0, moreMax).map(({ text, hint }) => (hint === null ? text : `${text} ${hint}`));
  const untold = others.length - told.length;
  return {
    name,
    status: worst.status,
    detail: worst.text,
    hint: worst.hint,
    more: untold === 0 ? told : [...told, `And ${untold} more.`],
  };
}

/** `a`, `a and b`, `a, b and c`; with more than `max` the rest is counted. */
export function listed(names: readonly string[], max = 5): string {
  const shown = names.length > max ? [...names.slice(0, max), `${names.length - max} more`] : names;
  const last = shown.at(-1) ?? "nobody";
  return shown.length < 2 ? last : `${shown.slice(0, -1).join(", ")} and ${last}`;
}

/** "3 tasks wait", "1 task waits": `verb` as one of them has it, and as several have. */
export const countedDo = (count: number, noun: string, [one, more]: readonly [one: string, more: string]): string =>
  `${counted(count, noun)} ${count === 1 ? one : more}`;

const causes: readonly [found: RegExp, said: string][] = [
  [/ECONNREFUSED/, "it refuses connections"],
  [/ENOTFOUND|EAI_AGAIN|name resolution failed/i, "its name is not found"],
  [/EHOSTUNREACH|ENETUNREACH|ETIMEDOUT/, "it cannot be reached"],
  [/deadline exceeded|waiting for lb pick/i, "no answer in time"],
];
const reasonMax = 160;

/** Why a call failed, in few words: clients put all that they tried into their messages. */
export function shortReason(message: string): string {
  const [, said] = causes.find(([found]) => found.test(message)) ?? [];
  if (said !== undefined) return said;
  const [first = ""] = message.split("\n");
  return first.length > reasonMax ? `${first.slice(0, reasonMax - 1)}…` : first;
}

/** `1 node`, `2 nodes`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;
