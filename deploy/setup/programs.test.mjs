import { expect, test } from "vitest";
import { programs } from "../../runtime/src/program-list.mjs";
import { missingPrograms, packagesOf, serviceEnvironment } from "./programs.mjs";

/** A machine with what every Debian has, and these. */
const having =
  (...names) =>
  (name) =>
    programs[name]?.need === "debian" || names.includes(name) ? `/usr/bin/${name}` : null;
const packages = (facts, find = having()) => packagesOf(missingPrograms(facts, find));

const platform = ["etcd-server", "caddy", "docker-registry", "iproute2"];

test.each([
  {
    when: "root has no engine yet",
    facts: { dockerAnswers: false, isRoot: true, forTests: false },
    needs: ["docker.io", "iptables", ...platform, "debootstrap"],
  },
  {
    when: "an engine answers root, who writes the rules of its networks",
    facts: { dockerAnswers: true, isRoot: true, forTests: false },
    needs: ["iptables", ...platform, "debootstrap"],
  },
  {
    when: "an engine answers and the user is not root",
    facts: { dockerAnswers: true, isRoot: false, forTests: false },
    needs: platform,
  },
  {
    when: "tests are to run",
    facts: { dockerAnswers: true, isRoot: false, forTests: true },
    needs: [
      "docker.io",
      ...platform,
      "etcd-client",
      "pebble",
      "openssl",
      "e2fsprogs",
      "git",
      "nghttp2-client",
      "wrk",
      "mariadb-server-core",
      "mariadb-client-core",
      "postgresql-client",
      "chromium",
    ],
  },
])("when $when, all that is missing is named at once", ({ facts, needs }) => {
  expect(packages(facts)).toEqual(needs);
});

test("any of a program's names will do", () => {
  const facts = { dockerAnswers: true, isRoot: false, forTests: true };
  expect(packages(facts, having("google-chrome"))).not.toContain("chromium");
});

test("a program that every Debian has is named where it is missing all the same", () => {
  const facts = { dockerAnswers: true, isRoot: false, forTests: false };
  expect(missingPrograms(facts, (name) => (name === "setpriv" ? null : `/usr/bin/${name}`))).toEqual(["setpriv"]);
});

test("what an engine passes on of a build's output is told its service", () => {
  expect(serviceEnvironment({ A: "1", B: "2" })).toBe("[Service]\nEnvironment=A=1\nEnvironment=B=2\n");
});
