import { describe, expect, test } from "vitest";
import { type ClaimsMutant, claimsLife, rivals, twins } from "./claims-life.ts";
import { explore } from "./explore.ts";

describe("claims of names, in every order of events", () => {
  test("give a name to one at most, serve no longer than a proof allows, and leave no host behind, over days", () => {
    const { violation, states } = explore(claimsLife(null, rivals, true));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(10_000);
  });

  test("as also names with a www that somebody else may have proven", () => {
    const { violation, states } = explore(claimsLife(null, twins, false));
    expect(violation).toBeNull();
    expect(states).toBeGreaterThan(10_000);
  });

  const bugs: ClaimsMutant[] = [
    "believes whatever was found some time",
    "gives the name to whoever proves it last",
    "takes no answer for an absent record",
    "takes a name at the first look without a record",
    "decides before the lock",
    "forgets the hosts of what is detached",
    "forgets the hosts of what is lost",
  ];
  test.each(bugs)("would be caught with the bug: %s", (bug) => {
    expect(explore(claimsLife(bug, rivals, true)).violation).not.toBeNull();
  });

  const bugsOfADay: ClaimsMutant[] = [
    "takes a record for the project's and not the claim's",
    "serves what is disabled",
    "takes www from whoever has proven it",
  ];
  test.each(bugsOfADay)("would be caught within a day with the bug: %s", (bug) => {
    expect(explore(claimsLife(bug, twins, false)).violation).not.toBeNull();
  });
});
