import { createTokenReply, projectListReply } from "@svc/proto";
import { z } from "zod";

const requestMs = 15_000;

/** The platform's API answered something else than success. */
export class ApiRefused extends Error {
  override readonly name = "ApiRefused";
}

async function call(method: string, url: string, headers: Record<string, string>, body?: unknown): Promise<Response> {
  const reply = await fetch(url, {
    method,
    headers: { ...headers, ...(body !== undefined && { "content-type": "application/json" }) },
    signal: AbortSignal.timeout(requestMs),
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  if (reply.ok) return reply;
  throw new ApiRefused(
    `${method} ${new URL(url).pathname} answered ${reply.status}: ${(await reply.text()).slice(0, 500)}`,
  );
}

const signedIn = z.looseObject({ token: z.string() });

/** Signs in and returns the session's token, to be sent as `Authorization: Bearer`. */
export async function signIn(apiUrl: string, account: { email: string; password: string }): Promise<string> {
  const reply = await call("POST", `${apiUrl}/api/auth/sign-in/email`, { origin: apiUrl }, account);
  return reply.headers.get("set-auth-token") ?? signedIn.parse(await reply.json()).token;
}

/** Makes a full-access API key; null for one that never expires. */
export async function createKey(
  apiUrl: string,
  session: string,
  options: { name: string; expiresInSeconds: number | null },
): Promise<{ id: string; key: string }> {
  const { name, expiresInSeconds } = options;
  const body = { name, ...(expiresInSeconds !== null && { expiresIn: expiresInSeconds }) };
  const reply = await call("POST", `${apiUrl}/api/v1/tokens`, { authorization: `Bearer ${session}` }, body);
  const { id, key } = createTokenReply.parse(await reply.json()).token;
  return { id, key };
}

/** Ends the key that is used for the call. */
export async function revokeKey(apiUrl: string, key: string): Promise<void> {
  await call("DELETE", `${apiUrl}/api/v1/tokens/self`, { "x-api-key": key });
}

/** The caller's projects. */
export async function listProjects(apiUrl: string, key: string) {
  const reply = await call("GET", `${apiUrl}/api/v1/projects`, { "x-api-key": key });
  return projectListReply.parse(await reply.json()).projects;
}
