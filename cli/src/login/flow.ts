import { hostname } from "node:os";
import { sleep } from "@svc/runtime/sleep";
import { openBrowser } from "../browser.ts";
import { type Context, userAgent } from "../context.ts";
import { CliError } from "../errors.ts";
import { parseJson } from "../json.ts";
import { webUrl } from "../origin.ts";
import { deviceCodeReply, loginExpired, nextDeviceStep } from "./device.ts";

const clientId = "svc-cli";
const callMs = 30_000;
const authBytesMax = 256 * 1024;

/** One call of the identity endpoints, which answer without our envelope. */
async function authCall(context: Context, apiUrl: string, path: string, body: object, session?: string) {
  const http = await context.http();
  const response = await http.send({
    method: "POST",
    url: `${apiUrl}/api/auth${path}`,
    headers: {
      accept: "application/json",
      "content-type": "application/json",
      "user-agent": userAgent,
      ...(session === undefined ? {} : { authorization: `Bearer ${session}` }),
    },
    body: JSON.stringify(body),
    timeoutMs: callMs,
    maxBytes: authBytesMax,
    signal: context.signal,
  });
  context.terminal.verbose(`POST /api/auth${path} ${response.status}`);
  return { status: response.status, body: parseJson(response.body) };
}

/** Lets a person confirm this login in a browser; returns the token of the session that this makes. */
export async function confirmInBrowser(context: Context, apiUrl: string): Promise<string> {
  const asked = await authCall(context, apiUrl, "/device/code", { client_id: clientId, ...machineScope(hostname()) });
  const code = deviceCodeReply.safeParse(asked.body);
  if (asked.status !== 200 || !code.success)
    throw new CliError("CLOUD_LOGIN_FAILED", `${apiUrl} offers no login (HTTP status ${asked.status})`, {
      hint: "Check the address: `svc login --api-url <url>`",
    });
  invite(context, apiUrl, code.data);
  const { device_code, interval, expires_in } = code.data;
  const waiting = context.terminal.activity("Waiting for the confirmation in the browser");
  try {
    return await pollForSession(context, apiUrl, {
      deviceCode: device_code,
      intervalMs: interval * 1000,
      expiresMs: expires_in * 1000,
    });
  } finally {
    waiting.stop();
  }
}

/** Says which machine asks, so that whoever confirms can tell: the platform shows it beside the code. */
const machineScope = (name: string): { scope?: string } =>
  /^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$/.test(name) ? { scope: `host:${name}` } : {};

/** Tells the person where to go, and opens a browser there when that address is the API's own. */
function invite(
  context: Context,
  apiUrl: string,
  code: { user_code: string; verification_uri: string; verification_uri_complete?: string | undefined },
): void {
  const absolute = (path: string) => webUrl(URL.parse(path, apiUrl)?.href ?? "");
  const page = absolute(code.verification_uri);
  if (page === null)
    throw new CliError("CLOUD_LOGIN_FAILED", `${apiUrl} names no web page for the login`, {
      hint: "Check the address: `svc login --api-url <url>`",
    });
  const { terminal } = context;
  const target = absolute(code.verification_uri_complete ?? code.verification_uri) ?? page;
  terminal.tell(`Open ${terminal.paint("bold", target)}`);
  terminal.tell(`and confirm the code ${terminal.paint("bold", printable(code.user_code))}`);
  if (terminal.interactive && new URL(target).origin === apiUrl) openBrowser(target);
}

/** The code without anything that a terminal obeys, eight characters in two halves as the page shows them. */
const printable = (code: string): string =>
  code
    .replace(/[^\x21-\x7e]/g, "")
    .slice(0, 64)
    .replace(/^([A-Z0-9]{4})([A-Z0-9]{4})$/, "$1-$2");

async function pollForSession(
  context: Context,
  apiUrl: string,
  code: { deviceCode: string; intervalMs: number; expiresMs: number },
): Promise<string> {
  const endsAtMs = context.clock.steadyMs() + code.expiresMs;
  const body = {
    grant_type: "urn:ietf:params:oauth:grant-type:device_code",
    device_code: code.deviceCode,
    client_id: clientId,
  };
  let { intervalMs } = code;
  while (context.clock.steadyMs() + intervalMs < endsAtMs) {
    await sleep(context.clock, intervalMs, context.signal);
    const answer = await authCall(context, apiUrl, "/device/token", body).catch((thrown: unknown) => {
      // A lost connection is no answer; the code stays good until it expires.
      if (thrown instanceof CliError && thrown.code === "CLOUD_UNAVAILABLE") return { status: 503, body: undefined };
      throw thrown;
    });
    const step = nextDeviceStep(answer, intervalMs);
    if ("session" in step) return step.session;
    if ("failed" in step) throw step.failed;
    intervalMs = step.intervalMs;
  }
  throw loginExpired();
}

/** Ends the session that the login made; it has done its work once there is a key. Failure is harmless: it expires. */
export async function endSession(context: Context, apiUrl: string, session: string): Promise<void> {
  try {
    await authCall(context, apiUrl, "/sign-out", {}, session);
  } catch (thrown) {
    if (context.signal.aborted) throw thrown;
    context.terminal.verbose("The session of the login could not be ended; it expires by itself");
  }
}
