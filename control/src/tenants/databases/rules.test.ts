import { describe, expect, test } from "vitest";
import { type CreateFacts, decideCreation, planRefusal, savedQueryRefusal, useRefusal } from "./rules.ts";

const facts: CreateFacts = {
  type: "ssr",
  channel: "production",
  asked: null,
  fixed: null,
  offered: ["postgres", "mariadb"],
  status: null,
  otherProjects: 0,
  hasBranch: false,
  maxDatabases: 2,
};
const outcome = (change: Partial<CreateFacts>): string => {
  const decided = decideCreation({ ...facts, ...change });
  return "refusal" in decided ? decided.refusal.code : `${decided.do} ${decided.engine}`;
};

describe("asking for a branch", () => {
  test.each<{ when: string; change: Partial<CreateFacts>; is: string }>([
    { when: "nothing was said of the engine", change: {}, is: "insert postgres" },
    { when: "MariaDB was asked for", change: { asked: "mariadb" }, is: "insert mariadb" },
    { when: "the project has MariaDB", change: { fixed: "mariadb" }, is: "insert mariadb" },
    { when: "the engine is the project's", change: { fixed: "mariadb", asked: "mariadb" }, is: "insert mariadb" },
    {
      when: "the engine is another",
      change: { fixed: "mariadb", asked: "postgres" },
      is: "DATABASE_ENGINE_CONFLICT",
    },
    {
      when: "the engine is another, and the branch is there",
      change: { fixed: "postgres", asked: "mariadb", status: "ready", hasBranch: true },
      is: "DATABASE_ENGINE_CONFLICT",
    },
    {
      when: "the engine is not offered",
      change: { asked: "mariadb", offered: ["postgres"] },
      is: "DATABASE_ENGINE_UNAVAILABLE",
    },
    {
      when: "the engine is offered no more",
      change: { fixed: "mariadb", offered: ["postgres"], hasBranch: true },
      is: "DATABASE_ENGINE_UNAVAILABLE",
    },
    {
      when: "the engine is offered no more, and the branch is there",
      change: { fixed: "mariadb", offered: ["postgres"], status: "ready", hasBranch: true },
      is: "keep mariadb",
    },
    { when: "it is on its way", change: { status: "provisioning", hasBranch: true }, is: "keep postgres" },
    { when: "it is there", change: { fixed: "mariadb", status: "ready", hasBranch: true }, is: "keep mariadb" },
    { when: "it failed", change: { status: "error", hasBranch: true }, is: "retry postgres" },
    { when: "it is being dropped", change: { status: "dropping", hasBranch: true }, is: "DATABASE_NOT_READY" },
    { when: "another project has the last place", change: { otherProjects: 2 }, is: "QUOTA_EXCEEDED" },
    {
      when: "the project has its place already",
      change: { otherProjects: 2, hasBranch: true },
      is: "insert postgres",
    },
    {
      when: "the plan shrank below what is there, and one failed",
      change: { otherProjects: 5, status: "error", hasBranch: true },
      is: "retry postgres",
    },
    { when: "the site is static", change: { type: "static" }, is: "VALIDATION" },
    { when: "an image has a dev channel asked", change: { type: "ociimage", channel: "dev" }, is: "VALIDATION" },
    { when: "an image has a preview", change: { type: "ociimage", channel: "preview" }, is: "insert postgres" },
    { when: "it is for dev", change: { channel: "dev" }, is: "insert postgres" },
  ])("when $when: $is", ({ change, is }) => {
    expect(outcome(change)).toBe(is);
  });
});

test("a plan without databases refuses them", () => {
  expect(planRefusal(0)?.code).toBe("PLAN_FEATURE_UNAVAILABLE");
  expect(planRefusal(1)).toBeNull();
});

test.each([
  [null, "NOT_FOUND"],
  ["provisioning", "DATABASE_PROVISIONING"],
  ["ready", undefined],
  ["dropping", "DATABASE_NOT_READY"],
  ["error", "DATABASE_NOT_READY"],
] as const)("using a branch that is %s", (status, code) => {
  expect(useRefusal(status)?.code).toBe(code);
});

test("a project keeps twenty queries", () => {
  expect(savedQueryRefusal(19)).toBeNull();
  expect(savedQueryRefusal(20)?.code).toBe("QUOTA_EXCEEDED");
});
