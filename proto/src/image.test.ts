import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { normaliseRegistry, parseImageReference, registryApiHost } from "./image.ts";

const digest = `sha256:${"0123456789abcdef".repeat(4)}`;

describe("an image reference", () => {
  test.each([
    { text: "nginx:1.27", canonical: "docker.io/library/nginx:1.27" },
    { text: "docker.io/nginx:1", canonical: "docker.io/library/nginx:1" },
    { text: "index.docker.io/acme/shop:v1", canonical: "docker.io/acme/shop:v1" },
    { text: "acme/shop:Latest_1.0-rc", canonical: "docker.io/acme/shop:Latest_1.0-rc" },
    { text: `acme/shop@${digest}`, canonical: `docker.io/acme/shop@${digest}` },
    { text: "Registry.TEST/a/b/c:1", canonical: "registry.test/a/b/c:1" },
    { text: "registry.test:443/a:1", canonical: "registry.test/a:1" },
    { text: "registry.test:5000/a:1", canonical: "registry.test:5000/a:1" },
    { text: "localhost/a:1", canonical: "localhost/a:1" },
    { text: "localhost:5000/a:1", canonical: "localhost:5000/a:1" },
    { text: "registry.test/a__b/c-d.e/f--g:1", canonical: "registry.test/a__b/c-d.e/f--g:1" },
  ])("$text is $canonical", ({ text, canonical }) => {
    expect(parseImageReference(text)).toMatchObject({ canonical });
  });

  test("is taken apart", () => {
    expect(parseImageReference("registry.test:5000/a/b:1")).toEqual({
      registry: "registry.test:5000",
      repository: "a/b",
      tag: "1",
      canonical: "registry.test:5000/a/b:1",
    });
  });

  test.each([
    { when: "empty", text: "" },
    { when: "without tag or digest", text: "nginx" },
    { when: "without tag behind a port", text: "registry.test:5000/nginx" },
    { when: "only a colon", text: ":" },
    { when: "an empty tag", text: "nginx:" },
    { when: "only a digest", text: `@${digest}` },
    { when: "a short digest", text: "nginx@sha256:xyz" },
    { when: "an upper-case digest", text: `nginx@${digest.toUpperCase()}` },
    { when: "another algorithm", text: `nginx@sha512:${"a".repeat(128)}` },
    { when: "tag and digest", text: `a/b:t@${digest}` },
    { when: "two digests", text: `a/b@${digest}@${digest}` },
    { when: "upper case in the name", text: "acme/Shop:1" },
    { when: "a scheme", text: "https://registry.test/a:1" },
    { when: "spaces", text: "acme/shop: 1" },
    { when: "a line break", text: "acme/shop:1\n" },
    { when: "a user name", text: "user:secret@registry.test/a:1" },
    { when: "climbing", text: "registry.test/../a:1" },
    { when: "an empty part", text: "registry.test//a:1" },
    { when: "a trailing slash", text: "registry.test/:1" },
    { when: "separators at the end", text: "registry.test/a-:1" },
    { when: "circled letters", text: "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/x:1" },
    { when: "a trailing dot in the host", text: "localhost./x:1" },
    { when: "an IPv6 host", text: "[::1]:5000/x:1" },
    { when: "a bare image id", text: `${"a".repeat(64)}:1` },
    { when: "port 0", text: "registry.test:0/a:1" },
    { when: "port 99999", text: "registry.test:99999/a:1" },
    { when: "a long tag", text: `nginx:${"a".repeat(129)}` },
    { when: "a long name", text: `registry.test/${"a".repeat(250)}:1` },
    { when: "very long", text: `registry.test/${"a/".repeat(400)}a:1` },
    { when: "percent escapes", text: "registry.test/a%2fb:1" },
    { when: "a query", text: "registry.test/a?b:1" },
  ])("is refused with a sentence when it is $when", ({ text }) => {
    expect(parseImageReference(text)).toMatchObject({ problem: expect.stringMatching(/\.$/) });
  });

  test.each([
    {
      text: "https://registry.test:22/Shop",
      registry: "registry.test:22",
      told: [/without https/, /lower-case/, /tag/],
    },
    { text: "registry.test/shop:?@sha256:1", registry: "registry.test", told: [/digest after/, /The tag/, /not both/] },
    { text: "localhost./Shop", registry: undefined, told: [/"localhost\." is not/, /lower-case/, /tag/] },
  ])("tells all that is wrong with $text at once", ({ text, registry, told }) => {
    const read = parseImageReference(text) as { problem: string; registry?: string };
    for (const each of told) expect(read.problem).toMatch(each);
    expect(read.registry).toBe(registry);
  });

  const label = fc.stringMatching(/^[a-zA-Z0-9]([a-zA-Z0-9-]{0,10}[a-zA-Z0-9])?$/);
  const host = fc
    .tuple(fc.array(label, { minLength: 2, maxLength: 4 }), fc.option(fc.integer({ min: 1, max: 65_535 })))
    .map(([labels, port]) => `${labels.join(".")}${port === null ? "" : `:${port}`}`);
  const part = fc.stringMatching(/^[a-z0-9]{1,8}((\.|_|__|-{1,3})[a-z0-9]{1,8}){0,2}$/);
  const version = fc.oneof(
    fc.stringMatching(/^\w[\w.-]{0,40}$/).map((tag) => `:${tag}`),
    fc.stringMatching(/^[a-f0-9]{64}$/).map((hex) => `@sha256:${hex}`),
  );
  const reference = fc
    .tuple(fc.option(host), fc.array(part, { minLength: 1, maxLength: 3 }), version)
    .map(([registry, parts, end]) => `${registry === null ? "acme/" : `${registry}/`}${parts.join("/")}${end}`);

  test("parses to a canonical form that parses to itself", () => {
    fc.assert(
      fc.property(reference, (text) => {
        const parsed = parseImageReference(text);
        if ("problem" in parsed) throw new Error(`${text}: ${parsed.problem}`);
        expect(parseImageReference(parsed.canonical)).toEqual(parsed);
        expect((parsed.tag === undefined) !== (parsed.digest === undefined)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  test("never throws, and what it accepts has no surprising character", () => {
    const noise = fc.oneof(fc.string({ unit: "binary" }), fc.stringMatching(/^[a-z0-9.:@/_-]{0,80}$/));
    fc.assert(
      fc.property(noise, (text) => {
        const parsed = parseImageReference(text);
        if (!("problem" in parsed)) expect(parsed.canonical).toMatch(/^[a-z0-9.:-]+\/[a-z0-9._/-]+[:@][\w.:-]+$/);
      }),
      { numRuns: 2000 },
    );
  });
});

test.each([
  { text: "Registry.test", is: "registry.test" },
  { text: "registry.test:443", is: "registry.test" },
  { text: "registry.test:05000", is: "registry.test:5000" },
  { text: "docker.io", is: "docker.io" },
  { text: "registry-1.docker.io", is: "docker.io" },
  { text: "Index.Docker.io:443", is: "docker.io" },
  { text: "registry.hub.docker.com", is: "docker.io" },
  { text: "registry.test/path", is: null },
  { text: "https://registry.test", is: null },
  { text: "a@registry.test", is: null },
  { text: `${"a".repeat(64)}.test`, is: null },
  { text: "", is: null },
])("the registry $text is compared as $is", ({ text, is }) => {
  expect(normaliseRegistry(text)).toBe(is);
});

test("Docker Hub is reached at its API's host", () => {
  expect(registryApiHost("docker.io")).toBe("registry-1.docker.io");
  expect(registryApiHost("registry.test:5000")).toBe("registry.test:5000");
});
