import { styleText } from "node:util";
import type { Env } from "./environment.ts";

type Style = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";

/** Colours `text`, or gives it back unchanged where colour is not wanted. */
export type Paint = (style: Style, text: string) => string;

export const plain: Paint = (_style, text) => text;
export const coloured: Paint = (style, text) => styleText(style, text, { validateStream: false });

const given = (value: string | undefined): boolean => value !== undefined && value !== "" && value !== "0";

/** Whether to colour what goes to a stream: flag, then NO_COLOR, then FORCE_COLOR, then whether a terminal shows it. */
export function wantsColour(env: Env, options: { isTerminal: boolean; noColor: boolean }): boolean {
  if (options.noColor || (env["NO_COLOR"] ?? "") !== "") return false;
  if (given(env["FORCE_COLOR"]) || given(env["CLICOLOR_FORCE"])) return true;
  return options.isTerminal && env["TERM"] !== "dumb";
}

/** The colour of a status word of a deployment or a node. */
export function paintStatus(paint: Paint, status: string): string {
  if (["running", "ready", "succeeded"].includes(status)) return paint("green", status);
  if (["failed", "crashing", "fenced", "unreachable", "quarantined"].includes(status)) return paint("red", status);
  if (["queued", "building", "deploying", "draining", "suspect", "cordoned"].includes(status))
    return paint("yellow", status);
  return paint("dim", status);
}
