import { expect, test } from "vitest";
import { nextDeviceStep } from "./device.ts";

const refused = (error: string) => ({ status: 400, body: { error, error_description: "because" } });

test.each([
  ["a session", { status: 200, body: { access_token: "t", token_type: "Bearer" } }, { session: "t" }],
  ["not yet", refused("authorization_pending"), { ask: "again", intervalMs: 5000 }],
  ["slower, please", refused("slow_down"), { ask: "again", intervalMs: 10_000 }],
  ["too many requests", { status: 429, body: undefined }, { ask: "again", intervalMs: 10_000 }],
  ["a server in trouble", { status: 502, body: undefined }, { ask: "again", intervalMs: 10_000 }],
  ["no", refused("access_denied"), { failed: { code: "CLOUD_LOGIN_DENIED" } }],
  ["too late", refused("expired_token"), { failed: { code: "CLOUD_LOGIN_EXPIRED" } }],
  ["a code it does not know", refused("invalid_grant"), { failed: { code: "CLOUD_LOGIN_FAILED" } }],
  ["something else", { status: 404, body: undefined }, { failed: { code: "CLOUD_LOGIN_FAILED" } }],
  ["a success without a session", { status: 200, body: {} }, { failed: { code: "CLOUD_LOGIN_FAILED" } }],
])("when the server says %s", (_, answer, step) => {
  expect(nextDeviceStep(answer, 5000)).toMatchObject(step);
});
