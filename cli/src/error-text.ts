import { splitLastLines } from "@svc/proto";
import type { CliError } from "./errors.ts";
import type { Paint } from "./paint.ts";

/**
 * An error for a person: what is wrong, what the program that failed wrote last, and what to type next. The code
 * stands where a sentence has ended: behind the only line, or below several.
 */
export function errorText({ code, message, hint }: Pick<CliError, "code" | "message" | "hint">, paint: Paint): string {
  const { reason, lastLines } = splitLastLines(message);
  const [first = "", ...more] = reason.split("\n");
  const named = paint("dim", `(${code})`);
  const lines = [
    `${paint("red", "Error:")} ${first}${more.length === 0 ? ` ${named}` : ""}`,
    ...more,
    ...(more.length === 0 ? [] : [named]),
    ...(lastLines.length === 0 ? [] : [paint("dim", "Last lines:"), ...lastLines.map((line) => `  ${line}`)]),
    ...(hint === undefined ? [] : [`${paint("cyan", "→")} ${hint}`]),
  ];
  return lines.join("\n");
}
