import { expect, test } from "vitest";
import { predictUrl } from "./rehearse.ts";

test.each([
  ["production", null, "http://shop.svc.localhost:8080"],
  ["dev", null, "http://dev-shop.svc.localhost:8080"],
  ["preview", null, "http://preview-shop.svc.localhost:8080"],
  ["preview", 7, "http://preview-shop--7.svc.localhost:8080"],
  ["dev", 7, "http://dev-shop.svc.localhost:8080"],
] as const)("%s of pull request %s answers at %s", (channel, prNumber, url) => {
  expect(predictUrl("http://shop.svc.localhost:8080", { slug: "shop", channel, prNumber })).toBe(url);
});

test("an address that is not made of the slug tells nothing of the other channels", () => {
  const address = { slug: "shop", channel: "preview", prNumber: null } as const;
  expect(predictUrl("https://www.example.test", address)).toBeNull();
  expect(predictUrl("nonsense", address)).toBeNull();
});
