import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import { openSignedToken, presentedCredential } from "./credentials.ts";

const cookieName = "svc.session_token";
const present = (headers: Parameters<typeof presentedCredential>[0]) => presentedCredential(headers, cookieName);

test.each([
  { when: "there is nothing", headers: {}, is: "none" },
  { when: "a key is sent", headers: { "x-api-key": "svc_abc" }, is: { via: "key", key: "svc_abc" } },
  {
    when: "a Bearer token is sent",
    headers: { authorization: "Bearer abc.def" },
    is: { via: "bearer", token: "abc.def" },
  },
  {
    when: "the scheme is in another case",
    headers: { authorization: "bearer abc" },
    is: { via: "bearer", token: "abc" },
  },
  {
    when: "a cookie is sent among others",
    headers: { cookie: `a=1; ${cookieName}=t%2Es%3D; b=2` },
    is: { via: "cookie", signedToken: "t.s=" },
  },
  {
    when: "a key and a cookie are sent",
    headers: { "x-api-key": "svc_abc", cookie: `${cookieName}=t.s` },
    is: { via: "key", key: "svc_abc" },
  },
  {
    when: "a key and a Bearer token are sent",
    headers: { "x-api-key": "svc_abc", authorization: "Bearer abc" },
    is: "ambiguous",
  },
  { when: "the key is sent twice", headers: { "x-api-key": "svc_abc, svc_def" }, is: "ambiguous" },
  { when: "the key is empty", headers: { "x-api-key": "" }, is: "ambiguous" },
  {
    when: "an unknown scheme comes with a good cookie",
    headers: { authorization: "Basic abc", cookie: `${cookieName}=t.s` },
    is: "ambiguous",
  },
  {
    when: "the cookie is sent twice with two values",
    headers: { cookie: `${cookieName}=a.b; ${cookieName}=c.d` },
    is: "none",
  },
  { when: "the cookie is not decodable", headers: { cookie: `${cookieName}=%zz` }, is: "none" },
  { when: "only a cookie whose name ends alike is sent", headers: { cookie: `x${cookieName}=a.b` }, is: "none" },
])("when $when", ({ headers, is }) => {
  expect(present(headers)).toEqual(is);
});

const secret = "a secret of some length, made up for this test";
const signed = (token: string, by = secret) => `${token}.${createHmac("sha256", by).update(token).digest("base64")}`;

test("a token that we signed opens", () => {
  expect(openSignedToken(signed("token"), secret)).toBe("token");
});

test.each([
  { what: "without a signature", value: "token" },
  { what: "with an empty signature", value: "token." },
  { what: "signed by another secret", value: signed("token", "another") },
  { what: "whose token was changed", value: signed("token").replace("token", "tokem") },
  { what: "that is only a signature", value: signed("") },
])("a token $what does not open", ({ value }) => {
  expect(openSignedToken(value, secret)).toBeNull();
});
