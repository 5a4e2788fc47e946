import type { CliError } from "./errors.ts";
import { redact, scrub } from "./redact.ts";

/** What a command returns: its fields of the envelope. */
export type Payload = object;

// JSON escapes C0 already; C1, DEL and the line separators would still reach a terminal or break a line reader.
const rawInJson = /[\u007f-\u009f\u2028\u2029]/g;
const escaped = (char: string) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;

// GitHub Actions obeys `##[command]` wherever in a line it stands.
const line = (body: object) => `${JSON.stringify(body).replace(rawInJson, escaped).replaceAll("##[", "\\u0023#[")}\n`;

/** The one line that a successful command writes to stdout with --json. */
export const successEnvelope = (operation: string, warnings: readonly string[], payload: Payload): string =>
  line({ ok: true, operation, warnings, ...(redact(payload) as Payload) });

/** The one line that a failed command writes to stdout with --json. `secrets` never appear in it. */
export const errorEnvelope = (operation: string, error: CliError, secrets: Iterable<string>): string =>
  line({
    ok: false,
    operation,
    error: {
      code: error.code,
      message: scrub(error.message, secrets),
      ...(error.hint === undefined ? {} : { hint: scrub(error.hint, secrets) }),
    },
  });
