import { type DeviceAccount, markDevice } from "./known-device.ts";

/** Where a browser keeps the mark by which it is known; see known-device.ts. */
export interface DeviceCookie {
  name: string;
  secure: boolean;
}

interface Call {
  setCookie(name: string, value: string, options: object): unknown;
}

const maxAgeSeconds = 180 * 86_400;

/** From now on the browser that made the call is known at the account, as long as it has this password. */
export function rememberDevice(
  call: Call,
  { name, secure }: DeviceCookie,
  secret: string,
  account: DeviceAccount,
): void {
  call.setCookie(name, markDevice(secret, account), {
    httpOnly: true,
    sameSite: "lax",
    path: "/",
    secure,
    maxAge: maxAgeSeconds,
  });
}
