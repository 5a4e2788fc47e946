import { expect, test } from "vitest";
import { missingPrograms } from "./programs.mjs";

const nothing = () => null;
const packages = (facts, find = nothing) => missingPrograms(facts, find).map(({ packageName }) => packageName);

test.each([
  {
    when: "root has no engine yet",
    facts: { dockerAnswers: false, isRoot: true, forTests: false },
    needs: ["docker.io", "iptables", "etcd-server", "caddy", "docker-registry", "debootstrap"],
  },
  {
    when: "an engine answers and the user is not root",
    facts: { dockerAnswers: true, isRoot: false, forTests: false },
    needs: ["etcd-server", "caddy", "docker-registry"],
  },
  {
    when: "tests are to run",
    facts: { dockerAnswers: true, isRoot: true, forTests: true },
    needs: ["etcd-server", "caddy", "docker-registry", "debootstrap", "iproute2", "chromium"],
  },
])("when $when, all that is missing is named at once", ({ facts, needs }) => {
  expect(packages(facts)).toEqual(needs);
});

test("any of a program's names will do", () => {
  const facts = { dockerAnswers: true, isRoot: false, forTests: true };
  const find = (name) => (name === "google-chrome" ? "/usr/bin/google-chrome" : null);
  expect(packages(facts, find)).not.toContain("chromium");
});
