import { okReply } from "@svc/proto";
import { expect, test } from "vitest";
import { type Endpoint, endpointFor } from "../endpoint.ts";
import { ApiError } from "../errors.ts";
import { testApi } from "../testing.ts";

const endpoint = endpointFor<unknown>();

const refusing = (errors: Endpoint["errors"], details: ConstructorParameters<typeof ApiError>[1]): Endpoint =>
  endpoint({
    method: "POST",
    path: "/refusing",
    access: "none",
    summary: "Says no to everybody.",
    reply: okReply,
    errors,
    handle: () => Promise.reject(new ApiError("QUOTA_EXCEEDED", details)),
  });

test.each([
  { when: "nothing is declared", errors: [], details: {}, fails: true },
  { when: "it is declared", errors: ["QUOTA_EXCEEDED"] as const, details: {}, fails: false },
  { when: "another status is declared", errors: ["QUOTA_EXCEEDED"] as const, details: { status: 422 }, fails: true },
  {
    when: "that status is declared",
    errors: [{ code: "QUOTA_EXCEEDED", status: 422 }] as const,
    details: { status: 422 },
    fails: false,
  },
  { when: "the refusal ends the connection", errors: [], details: { closesConnection: true }, fails: true },
])("a test whose endpoint refuses fails: $fails, when $when", async ({ errors, details, fails }) => {
  const api = await testApi({ endpoints: [refusing(errors, details)] });
  const { body } = await api.call("POST", "/refusing", { body: {} });
  expect(body.error.code).toBe("QUOTA_EXCEEDED");
  const disposed = api[Symbol.asyncDispose]();
  if (fails) await expect(disposed).rejects.toThrow(/POST \/refusing: 4\d\d QUOTA_EXCEEDED/);
  else await disposed;
});
