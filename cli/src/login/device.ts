import { z } from "zod";
import { CliError } from "../errors.ts";

/** Answer to a request for a device code (RFC 8628, section 3.2). Times in seconds. */
export const deviceCodeReply = z.looseObject({
  device_code: z.string().min(1),
  user_code: z.string().min(1),
  verification_uri: z.string(),
  verification_uri_complete: z.string().optional(),
  interval: z.number().min(0).default(5),
  expires_in: z.number().positive(),
});

const tokenReply = z.looseObject({ access_token: z.string().min(1) });
const tokenError = z.looseObject({ error: z.string(), error_description: z.string().optional() });

/** What to do after one answer to a poll: wait and ask again, go on with the session, or give up. */
export type DeviceStep = { ask: "again"; intervalMs: number } | { session: string } | { failed: CliError };

const again = "Run `svc login` again";

// What RFC 8628 adds to the interval on each slow_down.
const slowDownMs = 5000;

/** Reads one answer of the token endpoint (RFC 8628, section 3.5) that was polled every `intervalMs`. */
export function nextDeviceStep(answer: { status: number; body: unknown }, intervalMs: number): DeviceStep {
  const granted = tokenReply.safeParse(answer.body);
  if (answer.status === 200 && granted.success) return { session: granted.data.access_token };
  const error = tokenError.safeParse(answer.body);
  switch (error.success ? error.data.error : "") {
    case "authorization_pending":
      return { ask: "again", intervalMs };
    case "slow_down":
      return { ask: "again", intervalMs: intervalMs + slowDownMs };
    case "access_denied":
      return { failed: new CliError("CLOUD_LOGIN_DENIED", "The login was denied in the browser", { hint: again }) };
    case "expired_token":
      return { failed: loginExpired() };
  }
  // A server in trouble or a limit on requests says nothing about the login itself.
  if (answer.status === 429 || answer.status >= 500) return { ask: "again", intervalMs: intervalMs + slowDownMs };
  const said = error.success ? ` (${error.data.error_description ?? error.data.error})` : "";
  return {
    failed: new CliError("CLOUD_LOGIN_FAILED", `The login failed with HTTP status ${answer.status}${said}`, {
      hint: again,
    }),
  };
}

export const loginExpired = (): CliError =>
  new CliError("CLOUD_LOGIN_EXPIRED", "The code was not confirmed in time", { hint: again });
