export const redacted = "[redacted]";

/** Names, lower case and without separators, whose value is never printed. */
const secretNames = new Set(["value", "key", "cookie", "dsn", "pwd"]);
const secretEndings =
  /(?:token|tokenref|password|passwords|passwd|passphrase|secret|secrets|apikey|accesskey|privatekey|authorization|setcookie|connectionstring|databaseurl)$/;

/** Whether a field of this name holds a secret. `passwordProtected` does not, `newPassword` and `api_key` do. */
export function isSecretName(name: string): boolean {
  const plain = name.toLowerCase().replace(/[^a-z0-9]/g, "");
  return secretNames.has(plain) || secretEndings.test(plain);
}

/** `{value, count}`, as figures list what visitors have in common: how often something came, and no secret. */
const isCounted = (payload: object): boolean =>
  Object.keys(payload).length === 2 && "value" in payload && "count" in payload && typeof payload.count === "number";

/**
 * A copy of `payload` in which every value under a secret-looking name is `[redacted]`. Booleans and
 * null stay: they say whether there is a secret, not which.
 */
export function redact(payload: unknown): unknown {
  if (Array.isArray(payload)) return payload.map(redact);
  if (payload === null || typeof payload !== "object" || isCounted(payload)) return payload;
  return Object.fromEntries(
    Object.entries(payload).map(([name, value]) => {
      const keeps = value === null || value === undefined || typeof value === "boolean";
      return [name, isSecretName(name) && !keeps ? redacted : redact(value)];
    }),
  );
}

const urlPassword = /\b([a-z][a-z0-9+.-]{1,30}:\/\/[^\s:/@]{0,256}):[^\s@/]{1,1024}@/gi;

/** `text` without the passwords of URLs in it and without any of `secrets`. For messages and diagnostics. */
export function scrub(text: string, secrets: Iterable<string>): string {
  let clean = text.replace(urlPassword, `$1:${redacted}@`);
  for (const secret of secrets) if (secret.length >= 6) clean = clean.replaceAll(secret, redacted);
  return clean;
}
