import { failureMessage } from "@svc/proto";
import { sitePassCookie } from "@svc/proto/site-pass";
import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import { z } from "zod";
import { TaskFailure } from "../placements/failure.ts";
import { BrowserError, type DevTools } from "./devtools.ts";
import { sizeOfPng } from "./png.ts";

/** What is to be seen, and how large the picture of it may be. */
export interface View {
  url: string;
  /** The visitor's cookie that opens the site's gate; empty: it has none. */
  pass: string;
  width: number;
  height: number;
  maxBytes: number;
}

/** Pages that never come to rest are shown as they are by then. */
const settleMs = 8_000;
/** Until one is small enough: photographs take more as PNG than anything else. */
const scales = [1, 0.75, 0.5, 0.25];

const anything = z.unknown();
const target = z.looseObject({ targetId: z.string() });
const attached = z.looseObject({ sessionId: z.string() });
const navigated = z.looseObject({ loaderId: z.string().optional(), errorText: z.string().optional() });
const frame = z.looseObject({ parentId: z.string().optional(), unreachableUrl: z.string().optional() });
const response = z.looseObject({
  frameId: z.string().optional(),
  loaderId: z.string(),
  type: z.string(),
  response: z.looseObject({ status: z.number() }),
});
const lifecycle = z.looseObject({ loaderId: z.string(), name: z.string() });
const picture = z.looseObject({ data: z.string() });

/**
 * The page as it looks once it rests, as PNG. Throws TaskFailure when there is none to see, and otherwise whatever the browser
 * does until `signal` ends it.
 */
export async function capturePage(
  {
    clock,
    browser,
    onBegin,
    signal,
  }: {
    clock: Clock;
    browser: DevTools /** The browser is ready, and the page is asked for. */;
    onBegin(): void;
    signal: AbortSignal;
  },
  view: View,
): Promise<Buffer> {
  const { width, height } = view;
  const { targetId } = await browser.call(target, "Target.createTarget", { url: "about:blank", width, height });
  browser.use((await browser.call(attached, "Target.attachToTarget", { targetId, flatten: true })).sessionId);
  const seen = watch(browser, targetId);
  await browser.call(anything, "Page.enable");
  await browser.call(anything, "Network.enable");
  await browser.call(anything, "Page.setLifecycleEventsEnabled", { enabled: true });
  const metrics = { width, height, deviceScaleFactor: 1, mobile: false };
  await browser.call(anything, "Emulation.setDeviceMetricsOverride", metrics);
  if (view.pass !== "") {
    const cookie = { name: sitePassCookie, value: view.pass, url: view.url, httpOnly: true, secure: true };
    await browser.call(anything, "Network.setCookie", cookie);
  }
  onBegin();
  await navigate(browser, view);
  const settled = new AbortController();
  await Promise.race([seen.rest, pause(clock, settleMs, AbortSignal.any([signal, settled.signal]))]);
  settled.abort();
  if (seen.isUnreachable()) throw siteFailed("It sends visitors elsewhere.");
  const status = seen.status();
  if (status >= 500) throw siteFailed(`It answered with status ${status}.`);
  return takePicture(browser, view);
}

/** What becomes of the page, from now on. Its own frame goes by the same name as the page. */
function watch(browser: DevTools, pageId: string) {
  const { promise: rest, resolve } = Promise.withResolvers<void>();
  let [unreachable, status] = [false, 0];
  browser.on("Page.frameNavigated", z.looseObject({ frame }), ({ frame: { parentId, unreachableUrl } }) => {
    if (parentId === undefined) unreachable = unreachableUrl !== undefined;
  });
  let main: string | null = null;
  browser.on("Network.responseReceived", response, ({ type, frameId, loaderId, response: { status: said } }) => {
    if (type !== "Document" || frameId !== pageId) return;
    main = loaderId;
    status = said;
  });
  browser.on("Page.lifecycleEvent", lifecycle, ({ loaderId, name }) => {
    if (name === "networkIdle" && loaderId === main) resolve();
  });
  // Nobody is there who could answer.
  browser.on("Page.javascriptDialogOpening", anything, () => {
    browser.call(anything, "Page.handleJavaScriptDialog", { accept: false }).catch(() => {});
  });
  return { rest, isUnreachable: () => unreachable, status: () => status };
}

async function navigate(browser: DevTools, { url, pass }: View): Promise<void> {
  const go = () => browser.call(navigated, "Page.navigate", { url });
  let { errorText } = await go();
  // An installation may have a CA that browsers do not know. A pass goes to nobody who is not known to be the site.
  if (errorText?.startsWith("net::ERR_CERT_") && pass === "") {
    await browser.call(anything, "Security.setIgnoreCertificateErrors", { ignore: true });
    ({ errorText } = await go());
  }
  if (errorText !== undefined && errorText !== "") throw siteFailed(`The browser says ${errorText.slice(0, 100)}.`);
}

async function takePicture(browser: DevTools, { width, height, maxBytes }: View): Promise<Buffer> {
  for (const scale of scales) {
    const clip = { x: 0, y: 0, width, height, scale };
    const { data } = await browser.call(picture, "Page.captureScreenshot", { format: "png", clip });
    const png = Buffer.from(data, "base64");
    const size = sizeOfPng(png);
    if (size === null || size.width > width || size.height > height) throw new BrowserError("that is no picture");
    if (png.byteLength <= maxBytes) return png;
  }
  throw new TaskFailure("CAPTURE_TOO_LARGE", failureMessage("CAPTURE_TOO_LARGE"));
}

const siteFailed = (why: string): TaskFailure =>
  new TaskFailure("CAPTURE_SITE_FAILED", `${failureMessage("CAPTURE_SITE_FAILED")} ${why}`);
