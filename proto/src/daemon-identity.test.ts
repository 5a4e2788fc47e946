import { expect, test } from "vitest";
import { identityOfAltName, identityUri, parseIdentityUri } from "./daemon-identity.ts";

const clusterId = "0b8f6c1e-6f0c-4d8e-9a3b-2f1d5c7e9a01";
const id = "7d1f2a3b-4c5d-4e6f-8a9b-0c1d2e3f4a5b";

test.each(["node", "edge"] as const)("the identity of a %s survives its URI", (role) => {
  const identity = { clusterId, role, id, incarnation: 3 };
  expect(parseIdentityUri(identityUri(identity))).toEqual(identity);
  expect(identityOfAltName(`URI:${identityUri(identity)}`)).toEqual(identity);
});

test.each([
  { when: "there is no name", name: undefined },
  { when: "the only name is a host", name: "DNS:control.svc.internal" },
  { when: "a host stands beside the URI", name: `URI:spiffe://${clusterId}/node/${id}/1, DNS:other.test` },
  { when: "two URIs stand beside each other", name: `URI:spiffe://${clusterId}/node/${id}/1, URI:spiffe://x/y` },
  { when: "the role is unknown", name: `URI:spiffe://${clusterId}/admin/${id}/1` },
  { when: "the incarnation is zero", name: `URI:spiffe://${clusterId}/node/${id}/0` },
  { when: "the incarnation has a sign", name: `URI:spiffe://${clusterId}/node/${id}/+1` },
  { when: "the path goes on", name: `URI:spiffe://${clusterId}/node/${id}/1/2` },
  { when: "the id is not a uuid", name: `URI:spiffe://${clusterId}/node/../1` },
  { when: "the scheme is another", name: `URI:https://${clusterId}/node/${id}/1` },
])("nobody is identified when $when", ({ name }) => {
  expect(identityOfAltName(name)).toBeNull();
});
