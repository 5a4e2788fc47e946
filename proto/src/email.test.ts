import { expect, test } from "vitest";
import { emailAddress, writtenAddress } from "./email.ts";

test.each([
  { text: "Ada@Svc.test", is: "ada@svc.test" },
  { text: "ada@svc.invalid.test", is: "ada@svc.invalid.test" },
  { text: "invalid@svc.test", is: "invalid@svc.test" },
  { text: "ada@notinvalid", is: null },
  { text: "ada@svc.notinvalid", is: "ada@svc.notinvalid" },
  { text: "ada", is: null },
  { text: "ada@svc.test\r\nBcc: eve@evil.test", is: null },
])("$text is $is", ({ text, is }) => {
  expect(emailAddress(text)).toBe(is);
  expect(writtenAddress(text)).toBe(is);
});

test.each(["x@deleted.invalid", "X@Deleted.INVALID", "ada@mail.svc.invalid"])("no account is made with %s", (text) => {
  expect(emailAddress(text)).toBeNull();
  expect(writtenAddress(text)).toBe(text.toLowerCase());
});
