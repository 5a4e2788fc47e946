import { idParams, okReply, setPasswordInput } from "@svc/proto";
import { describe, expect, test } from "vitest";
import type { Access } from "./access.ts";
import { declaredErrors, isDeclared } from "./declared.ts";
import { type EndpointSpec, endpointFor } from "./endpoint.ts";

const endpoint = endpointFor<unknown>();

type Spec = Partial<EndpointSpec<unknown, Access, typeof idParams, undefined, typeof setPasswordInput, typeof okReply>>;

const declared = (changes: Spec): string[] =>
  declaredErrors(
    endpoint({
      method: "GET",
      path: "/x",
      access: "none",
      summary: "",
      reply: okReply,
      handle: async () => ({}),
      ...changes,
    }),
  ).map(({ status, code }) => `${status} ${code}`);

const ours = ["500 INTERNAL", "503 UNAVAILABLE"];
/** Besides what is ours: a parameter in the address that there is not. */
const always = ["422 VALIDATION", ...ours];

describe("what a call may be refused with", () => {
  test("when it is open to everybody and has nothing to read is what comes in the address, and our failures", () => {
    expect(declared({})).toEqual(always);
  });

  test.each<{ access: Access; codes: string[] }>([
    { access: "any", codes: ["401 UNAUTHORIZED", "403 FORBIDDEN_SCOPE"] },
    { access: "full", codes: ["401 UNAUTHORIZED", "403 FORBIDDEN_SCOPE"] },
    { access: { scope: "deploy" }, codes: ["401 UNAUTHORIZED", "403 FORBIDDEN_SCOPE"] },
    { access: "session", codes: ["401 UNAUTHORIZED", "403 SESSION_REQUIRED"] },
    { access: "admin", codes: ["401 UNAUTHORIZED", "403 FORBIDDEN", "403 FORBIDDEN_SCOPE"] },
  ])("follows from the class $access", ({ access, codes }) => {
    expect(declared({ access })).toEqual([...codes, "422 VALIDATION", "429 RATE_LIMITED", ...ours]);
  });

  test("is also being called from a page elsewhere, when it changes something", () => {
    expect(declared({ access: "any", method: "DELETE" })).toContain("403 FORBIDDEN");
    expect(declared({ access: "any" })).not.toContain("403 FORBIDDEN");
  });

  test("follows from the path and the body, in the words that the endpoint has for a bad one", () => {
    expect(declared({ params: idParams })).toEqual(["404 NOT_FOUND", ...always]);
    expect(declared({ method: "POST", body: setPasswordInput, badBody: "INVALID_BODY" })).toEqual([
      ...["400 BAD_REQUEST", "400 INVALID_BODY", "408 BAD_REQUEST", "413 BODY_TOO_LARGE"],
      ...always,
    ]);
  });

  test("is what the handler names, with the status that it names", () => {
    const errors = ["QUOTA_EXCEEDED", { code: "QUOTA_EXCEEDED", status: 422 }] as const;
    expect(declared({ errors })).toEqual(["403 QUOTA_EXCEEDED", "422 QUOTA_EXCEEDED", ...always]);
    expect(declared({ errors: ["NOT_FOUND"], params: idParams })).toEqual(["404 NOT_FOUND", ...always]);
  });

  test("of an upload is also its size", () => {
    expect(declared({ method: "POST", upload: true })).toContain("413 UPLOAD_TOO_LARGE");
  });
});

test("a code under another status is not declared", () => {
  const spec = endpoint({
    method: "GET",
    path: "/x",
    access: "none",
    summary: "",
    reply: okReply,
    errors: ["QUOTA_EXCEEDED"],
    handle: async () => ({}),
  });
  expect([403, 422].map((status) => isDeclared(spec, status, "QUOTA_EXCEEDED"))).toEqual([true, false]);
});
