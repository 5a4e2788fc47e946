import { expect, test } from "vitest";
import { digestsIn, grantToAccount, nameOf, pushProblem } from "./rules.ts";

const me = "0b9a8c1e-0000-4000-8000-000000000001";
const other = "0b9a8c1e-0000-4000-8000-000000000002";
const mine = `accounts/${me}/shop`;

test.each([
  { when: "it is one's own", scope: `repository:${mine}:pull,push`, actions: ["pull", "push"] },
  { when: "it is nested", scope: `repository:${mine}/web:pull`, actions: ["pull"] },
  { when: "one deletes", scope: `repository:${mine}:delete`, actions: ["delete"] },
  { when: "an action is unknown", scope: `repository:${mine}:pull,rule`, actions: ["pull"] },
])("an account gets what it asks for when $when", ({ scope, actions }) => {
  expect(grantToAccount(me, [scope])).toEqual([{ type: "repository", name: scope.split(":")[1], actions }]);
});

test.each([
  { when: "it is another account's", scope: `repository:accounts/${other}/shop:pull` },
  { when: "it is a project's", scope: "repository:svc/p1/app:pull" },
  { when: "it is a base image", scope: "repository:bases/docker.io/library/node:pull" },
  { when: "it is the operator's", scope: "repository:examples/tide-clock:pull" },
  { when: "it is the account itself", scope: `repository:accounts/${me}/:push` },
  { when: "it is the account without a name", scope: `repository:accounts/${me}:push` },
  { when: "the account is only how it begins", scope: `repository:accounts/${me}x/shop:push` },
  { when: "it climbs", scope: `repository:accounts/${me}/../${other}/shop:push` },
  { when: "it has empty parts", scope: `repository:${mine}//x:push` },
  { when: "it is the list of all", scope: "registry:catalog:*" },
  { when: "everything is asked for", scope: `repository:${mine}:*` },
  { when: "it is capitals", scope: `repository:${mine.toUpperCase()}:push` },
  { when: "it is not a scope", scope: "push" },
])("nothing is granted when $when", ({ scope }) => {
  expect(grantToAccount(me, [scope])).toEqual([]);
});

test("of several scopes each is judged by itself", () => {
  const asked = [`repository:${mine}:push`, `repository:accounts/${other}/x:pull`, `repository:${mine}2:pull`];
  expect(grantToAccount(me, asked).map(({ name }) => name)).toEqual([mine, `${mine}2`]);
  expect(nameOf(me, `${mine}/web`)).toBe("shop/web");
});

const nothing = { bytes: 0, manifests: 0, unreadable: null, tags: {} };

test.each([
  { when: "there is room", kept: { tags: { shop: 99, other: 100 } }, told: null },
  { when: "the plan is used up", kept: { bytes: 3 * 1024 ** 2 }, told: /3 MiB.*allows 2 MiB/ },
  { when: "the repository is full", kept: { tags: { shop: 100 } }, told: /^shop has 100 tags/ },
  { when: "any has more than may be", kept: { tags: { other: 101 } }, told: /^other has more than 100 tags/ },
  { when: "one cannot be counted", kept: { unreadable: "shop@sha256:1" }, told: /^shop@sha256:1 is larger/ },
  { when: "there are too many manifests", kept: { manifests: 4_000 }, told: /more than 4000 manifests/ },
])("pushing is refused by what is kept: $when", ({ kept, told }) => {
  const problem = pushProblem({ ...nothing, ...kept }, 2, ["shop"]);
  if (told === null) expect(problem).toBeNull();
  else expect(problem).toMatch(told);
});

const [one, two] = ["1", "2"].map((digit) => `sha256:${digit.repeat(64)}`);

test.each([
  { when: "layers are layers", text: JSON.stringify({ layers: [{ digest: one }], config: { digest: two } }) },
  { when: "keys are in capitals", text: JSON.stringify({ Layers: [{ DIGEST: one }], layers: [{ digest: two }] }) },
  { when: "a key is there twice", text: `{"layers":[{"digest":"${one}"}],"layers":[{"digest":"${two}"},{}]}` },
  { when: "letters are written as numbers", text: `"${two} s\\u0068a256${one?.slice("sha256".length)}"` },
  { when: "it is named often", text: `${one} ${two} ${one}` },
  { when: "other digests are cut off", text: `${one}${two} sha256:12 sha1:${"1".repeat(40)}` },
])("what a manifest names is found when $when", ({ text }) => {
  expect(digestsIn(text).sort()).toEqual([one, two]);
});
