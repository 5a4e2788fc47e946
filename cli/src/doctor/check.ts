import type { CliError } from "../errors.ts";

/** What is looked at, in the order in which it is shown. */
export const checkNames = ["auth", "api", "manifest", "project", "dev-channel", "database"] as const;

/**
 * ok: as it should be. warning: works, and something may surprise. failed: has to be mended. skipped: there is nothing
 * to look at, or what it depends on failed.
 */
export type CheckStatus = "ok" | "warning" | "failed" | "skipped";

/** What one look found. `detail` is a sentence, `hint` what to type next. */
export interface Finding {
  status: CheckStatus;
  detail: string;
  hint?: string;
}

export type Check = { name: (typeof checkNames)[number] } & Finding;

/** What asking for something gave; null where there was nothing to ask about. */
export type Asked<T> = { found: T } | { error: CliError } | null;

export const ok = (detail: string): Finding => ({ status: "ok", detail });
export const skipped = (detail: string): Finding => ({ status: "skipped", detail });
export const warning = (detail: string, hint: string): Finding => ({ status: "warning", detail, hint });
export const failed = (detail: string, hint?: string): Finding => ({
  status: "failed",
  detail,
  ...(hint !== undefined && { hint }),
});

/** A failed call as a finding: the first line of what it says, with its hint. */
export const failedBy = ({ message, hint }: CliError): Finding => failed(message.split("\n")[0] ?? message, hint);
