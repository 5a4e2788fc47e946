import { randomBytes } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { hash } from "@node-rs/bcrypt";
import { type Gate, GateSchema } from "@svc/proto/edge";
import type { TestEdge } from "./edge.ts";
import { type Answer, ask } from "./http.ts";

/** What control would tell of a project with this password. */
export async function aGate(password: string, projectId = "p1"): Promise<Gate> {
  return create(GateSchema, {
    projectId,
    revision: randomBytes(32).toString("base64url").slice(0, 11),
    key: Uint8Array.from(randomBytes(32)),
    passwordHash: await hash(password, 4),
  });
}

/** Sends the form as a browser does; `next` is left out unless given. */
export function sendPassword(
  edge: TestEdge,
  host: string,
  password: string,
  options: { next?: string; headers?: Record<string, string> } = {},
): Promise<Answer> {
  const { next, headers = {} } = options;
  const form = new URLSearchParams({ password, ...(next !== undefined && { next }) });
  return ask(edge.http, host, "/_svc/password", {
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
    body: form.toString(),
  });
}

/** The Cookie header after the right password. */
export async function signedIn(edge: TestEdge, host: string, password: string): Promise<string> {
  const { headers } = await sendPassword(edge, host, password);
  const [cookie] = headers["set-cookie"] ?? [];
  if (cookie === undefined) throw new Error("there was no cookie");
  return cookie.split(";")[0] ?? "";
}
