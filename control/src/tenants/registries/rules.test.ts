import { expect, test } from "vitest";
import { admitCredential, confirmationRefusal, projectRefusal } from "./rules.ts";

const five = ["a.test", "b.test", "c.test", "d.test", "e.test"];

test.each([
  { when: "it is the first", hosts: [], host: "a.test", admitted: { rotates: false } },
  { when: "it is the fifth", hosts: five.slice(1), host: "a.test", admitted: { rotates: false } },
  { when: "there is one for the host", hosts: five, host: "a.test", admitted: { rotates: true } },
  { when: "it is the sixth", hosts: five, host: "f.test", admitted: { code: "QUOTA_EXCEEDED" } },
  { when: "only the port differs", hosts: five, host: "a.test:5000", admitted: { code: "QUOTA_EXCEEDED" } },
])("a credential when $when", ({ hosts, host, admitted }) => {
  expect(admitCredential(hosts, host)).toMatchObject(admitted);
});

test("only projects that run images by reference have credentials", () => {
  expect(projectRefusal("ociimage")).toBeNull();
  expect(projectRefusal("ssr")).toMatchObject({ code: "VALIDATION" });
  expect(projectRefusal("static")).toMatchObject({ code: "VALIDATION" });
});

test.each([undefined, null, false, "true", 1, {}, [true]])("%j does not confirm anything", (confirm) => {
  expect(confirmationRefusal(confirm)?.code).toBe("DESTRUCTIVE_CONFIRMATION_REQUIRED");
  expect(confirmationRefusal(true)).toBeNull();
});
