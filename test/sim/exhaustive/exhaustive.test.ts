import { describe, expect, test } from "vitest";
import { type BranchMutant, branchLife } from "./branch-life.ts";
import { databaseSlots } from "./database-slots.ts";
import { explore } from "./explore.ts";
import { type RouteMutant, routeSwitch } from "./route-switch.ts";
import { type RunMutant, runProtocol } from "./run-protocol.ts";
import { type SessionMutant, sessionProtocol } from "./session-protocol.ts";

describe("a release command, in every order of events", () => {
  test("starts at most once, and never after it was said not to", () => {
    const { violation, states } = explore(runProtocol(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(1_000);
  });

  const bugs: RunMutant[] = [
    "no tombstone",
    "no start record",
    "created is never started",
    "auto-remove",
    "take a grant back",
  ];
  test.each(bugs)("would be caught with the bug: %s", (bug) => {
    expect(explore(runProtocol(bug)).violation).not.toBeNull();
  });
});

describe("streams of one daemon, in every order of events", () => {
  test("only the one that has the key writes, and no delayed one takes it back", () => {
    const { violation, states } = explore(sessionProtocol(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(1_000);
  });

  const bugs: SessionMutant[] = ["no guard", "claim without a guard", "release without a guard"];
  test.each(bugs)("would be caught with the bug: %s", (bug) => {
    expect(explore(sessionProtocol(bug)).violation).not.toBeNull();
  });
});

describe("a change of route, in every order of events", () => {
  test("takes no container away to which an edge sends visitors", () => {
    const { violation, states } = explore(routeSwitch(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(1_000);
  });

  const bugs: RouteMutant[] = ["does not wait for edges", "tells before it serves", "decides on an old view"];
  test.each(bugs)("would be caught with the bug: %s", (bug) => {
    expect(explore(routeSwitch(bug)).violation).not.toBeNull();
  });
});

describe("the life of a database, in every order of events", () => {
  test("has at most one server, data that is made once, the password that people are told, and no write while it is read-only", () => {
    const { violation, states } = explore(branchLife(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(100_000);
  });

  const bugs: BranchMutant[] = [
    "ready without a login",
    "starts without looking again",
    "starts before the end of the one before",
    "forgets where the data is",
    "commits a rotation first",
    "does not look at the password again",
    "does not count doubts",
    "trusts that what was cut off did not arrive",
    "may make data at any time",
    "makes up for missing data",
    "makes data over data",
    "lets everybody in to a server that the platform writes to",
    "leaves a server as it was started",
    "takes the refusal of a standby for a yes",
  ];
  test.each(bugs)("would be caught with the bug: %s", (bug) => {
    expect(explore(branchLife(bug)).violation).not.toBeNull();
  });
});

describe("databases that are asked for at once, in every order of events", () => {
  test("are never more than the plan allows", () => {
    const { violation, states } = explore(databaseSlots(null));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(30);
  });

  test("would be caught with the bug: counts outside the lock", () => {
    expect(explore(databaseSlots("counts outside the lock")).violation).not.toBeNull();
  });
});
