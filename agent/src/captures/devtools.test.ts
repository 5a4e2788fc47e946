import { expect, test } from "vitest";
import { z } from "zod";
import { BrowserError, openDevTools } from "./devtools.ts";

const mebibyte = 1024 * 1024;
const event = (bytes: number): Buffer => {
  const url = `data:,${"x".repeat(bytes)}`;
  return Buffer.from(`${JSON.stringify({ method: "Network.requestWillBeSent", params: { url } })}\0`);
};

/** A browser that says so many events of a mebibyte each, and then answers its first call. Returns how many it was let say. */
function aBrowser(events: number) {
  const said = { events: 0 };
  const asked = Promise.withResolvers<void>();
  async function* output() {
    await asked.promise;
    const one = event(mebibyte);
    for (; said.events < events; said.events += 1) yield one;
    yield Buffer.from(`${JSON.stringify({ id: 1, result: { word: "here" } })}\0`);
    await new Promise(() => {});
  }
  return { said, browser: openDevTools({ output: output(), send: () => asked.resolve() }) };
}

test("a page may do as much as pages do", async () => {
  const { browser } = aBrowser(40);
  expect(await browser.call(z.object({ word: z.string() }), "Page.enable")).toEqual({ word: "here" });
});

test("a browser that says more than anybody may of what its page does is not listened to", async () => {
  const { browser, said } = aBrowser(1_000);
  await expect(browser.call(z.unknown(), "Page.enable")).rejects.toThrow(BrowserError);
  expect(said.events).toBeLessThan(70);
  await expect(browser.call(z.unknown(), "Page.enable")).rejects.toThrow("more than it may");
});
