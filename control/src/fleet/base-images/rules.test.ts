import { parseBaseImage } from "@svc/proto";
import { describe, expect, test } from "vitest";
import { baseRepository, roomProblem } from "./rules.ts";

const digest = `sha256:${"0123456789abcdef".repeat(4)}`;

describe("the repository of a base image", () => {
  test.each([
    { text: "node:24-slim", repository: "bases/docker.io/library/node" },
    { text: `node@${digest}`, repository: "bases/docker.io/library/node" },
    { text: "index.docker.io/acme/shop", repository: "bases/docker.io/acme/shop" },
    { text: "Registry.TEST:5000/a/b__c", repository: "bases/registry.test_5000/a/b__c" },
    { text: "registry.test:443/a", repository: "bases/registry.test/a" },
  ])("of $text is $repository", ({ text, repository }) => {
    const reference = parseBaseImage(text);
    if ("problem" in reference) throw new Error(reference.problem);
    expect(baseRepository(reference)).toBe(repository);
    // It is one by the same grammar.
    expect(parseBaseImage(`registry.test/${repository}@${digest}`)).toMatchObject({ repository });
  });

  test("of a name that is too long is none", () => {
    expect(baseRepository({ registry: "registry.test", repository: "a".repeat(200) })).toBeNull();
  });
});

test.each([
  { when: "there is room", kept: 5, added: 5, refused: false },
  { when: "it is one byte more", kept: 5, added: 5 + 1 / 1024 / 1024, refused: true },
  { when: "it alone is too much", kept: 0, added: 11, refused: true },
])("when $when", ({ kept, added, refused }) => {
  expect(roomProblem(kept * 1024 * 1024, added * 1024 * 1024, 10) !== null).toBe(refused);
});
