import { describe, expect, test } from "vitest";
import { formerSlugsProblem, type HeldHost } from "./rules.ts";

const now = new Date("2030-01-01T00:00:00Z");
const inHours = (hours: number) => new Date(now.getTime() + hours * 3_600_000);
const aHost = (slug: string, redirectUntil: Date | null): HeldHost => ({ slug, redirectUntil });
const present = aHost("shop", null);
const former = (...hours: (number | null)[]) =>
  hours.map((each, index) => aHost(`former-${index}`, each === null ? null : inHours(each)));

const problem = (hosts: HeldHost[], slug = "store") =>
  formerSlugsProblem([present, ...hosts], { present: "shop", slug, now });

describe("a project", () => {
  test.each<{ when: string; hosts: HeldHost[]; slug?: string }>([
    { when: "it had no other slug", hosts: [] },
    { when: "four lead to it", hosts: former(1, 2, 3, 4) },
    { when: "one of five is over", hosts: former(1, 2, 3, 4, 0) },
    { when: "the channels of four lead to it", hosts: [...former(1, 2, 3, 4), ...former(1, 2, 3, 4)] },
    { when: "the slug is one of the five", hosts: former(1, 2, 3, 4, 5), slug: "former-3" },
    { when: "the slug is its own, which takes a rename back", hosts: former(1, 2, 3, 4, 5), slug: "shop" },
  ])("may be renamed when $when", ({ hosts, slug }) => {
    expect(problem(hosts, slug)).toBeNull();
  });

  test.each<{ when: string; hosts: HeldHost[]; says: string }>([
    { when: "five lead to it", hosts: former(5, 4, 3, 2, 6), says: inHours(2).toISOString() },
    {
      when: "a channel of the oldest is held for longer",
      hosts: [...former(1, 4, 5, 6, 7), aHost("former-0", inHours(3))],
      says: inHours(3).toISOString(),
    },
    { when: "some do not redirect yet", hosts: former(null, 2, null, 3, null), says: inHours(2).toISOString() },
    { when: "none redirects yet", hosts: former(null, null, null, null, null), says: "after all edges have followed" },
  ])("may not when $when", ({ hosts, says }) => {
    expect(problem(hosts)).toContain(says);
  });
});
