import { z } from "zod";
import type { Lookup } from "../../http/caller.ts";
import { CannotOpen, type Secrets } from "../../stores/secrets.ts";

/** Tells it from an API key. */
const prefix = "svcr_";
const place = "registry-login";

/** What a password of the registry stands for: the credential that asked for it, for some hours. */
const content = z.strictObject({ kind: z.enum(["key", "session"]), secret: z.string(), until: z.number() });

/**
 * A password that dies with the credential that it was made of, and at `until` at the latest: nothing of it is stored,
 * and whoever reads it in a client's settings cannot use the API with it.
 */
export function makePassword(secrets: Secrets, { kind, secret }: Pick<Lookup, "kind" | "secret">, until: Date): string {
  const sealed = secrets.seal(Buffer.from(JSON.stringify({ kind, secret, until: until.getTime() })), place);
  return `${prefix}${sealed.toString("base64url")}`;
}

/** Whose credential it stands for; null for what is no such password, or none any more. */
export function readPassword(secrets: Secrets, password: string, now: Date): Lookup | null {
  if (!password.startsWith(prefix)) return null;
  try {
    const opened = secrets.open(Buffer.from(password.slice(prefix.length), "base64url"), place);
    const { kind, secret, until } = content.parse(JSON.parse(opened.toString("utf8")));
    return until > now.getTime() ? { kind, secret, isSigned: true } : null;
  } catch (error) {
    if (error instanceof CannotOpen || error instanceof SyntaxError || error instanceof z.ZodError) return null;
    throw error;
  }
}
