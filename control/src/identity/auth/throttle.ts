import { addressGroup, addressNetwork } from "../../http/address.ts";
import type { Db } from "../../stores/db/pool.ts";
import { type Allowance, type Counted, forgetAttempts, refund, takeAttempt } from "../limits/attempts.ts";

/**
 * Guesses at one account from browsers that never signed in to it, out of one network: ten, then four an hour. It takes
 * three networks that go on and on to use up what all of them have.
 */
const ofNetwork: Allowance = { capacity: 10, secondsPerToken: 900 };
/** The same from everywhere: forty, then twelve an hour, which is 328 in the first day and 288 in each other one. */
const ofStrangers: Allowance = { capacity: 40, secondsPerToken: 300 };
/** Guesses from a browser that has signed in to the account before. What strangers do does not count here. */
const ofKnownDevice: Allowance = { capacity: 20, secondsPerToken: 60 };
/** Guesses at the current password by whoever has a session, and not what it takes to keep the account. */
const ofPasswordCheck: Allowance = { capacity: 10, secondsPerToken: 360 };
/** Failures of one client at whatever accounts; an office shares an address. */
const ofAddress: Allowance = { capacity: 60, secondsPerToken: 60 };
/** Mails to one user about what somebody does who is signed in. Counted apart: those anybody may ask for hide none of them. */
const ofNotices: Allowance = { capacity: 5, secondsPerToken: 3600 };
/** Mails with a link to sign in. Only who knows the password causes them, so nobody else can use them up. */
const ofLinks: Allowance = { capacity: 3, secondsPerToken: 900 };
/** Mails to one address, which anybody may ask for. */
const ofMailbox: Allowance = { capacity: 5, secondsPerToken: 600 };

export interface SignInAttempt {
  /** As it was typed, whether or not there is such an account: the answer must not differ. */
  email: string;
  address: string;
  /** What names the browser, if it has signed in to this account before; see known-device.ts. */
  device: string | null;
}

interface Bound {
  counted: Counted;
  allowance: Allowance;
}

const ofAll = (email: string): Counted => ({ what: "sign-in-account", whose: email.toLowerCase() });
const ofEachNetwork = (email: string): Counted => ({ what: "sign-in-network", whose: email.toLowerCase() });

const boundOfClient = ({ address }: SignInAttempt): Bound => ({
  counted: { what: "sign-in-address", whose: addressGroup(address) },
  allowance: ofAddress,
});

function boundsAtAccount({ email, address, device }: SignInAttempt): Bound[] {
  if (device !== null) return [{ counted: { what: "sign-in-device", whose: device }, allowance: ofKnownDevice }];
  return [
    { counted: { ...ofEachNetwork(email), from: addressNetwork(address) }, allowance: ofNetwork },
    { counted: ofAll(email), allowance: ofStrangers },
  ];
}

/** Why no answer is given to an attempt. */
export interface HeldBack {
  /** Too many by this client, or at this account. */
  by: "client" | "account";
  waitSeconds: number;
}

/**
 * Counts an attempt before its password is looked at; null when it may be made. One that is held back counts against
 * the client only: who has no guesses left takes none from others.
 */
export async function takeSignIn(db: Db, attempt: SignInAttempt): Promise<HeldBack | null> {
  const client = boundOfClient(attempt);
  const wait = await takeAttempt(db, client.counted, client.allowance);
  if (wait !== null) return { by: "client", waitSeconds: wait };
  const taken: Bound[] = [];
  for (const bound of boundsAtAccount(attempt)) {
    const waitSeconds = await takeAttempt(db, bound.counted, bound.allowance);
    if (waitSeconds === null) {
      taken.push(bound);
      continue;
    }
    await refundAll(db, taken);
    return { by: "account", waitSeconds };
  }
  return null;
}

/** It was no guess: the password was right. */
export const refundSignIn = (db: Db, attempt: SignInAttempt): Promise<void> =>
  refundAll(db, [boundOfClient(attempt), ...boundsAtAccount(attempt)]);

async function refundAll(db: Db, bounds: readonly Bound[]): Promise<void> {
  for (const { counted, allowance } of bounds) await refund(db, counted, allowance);
}

const checksOf = (userId: string): Counted => ({ what: "password-check", whose: userId });

/** Counts a look at the current password of somebody who is signed in; null when it may be made, else the seconds to wait. */
export const takePasswordCheck = (db: Db, userId: string): Promise<number | null> =>
  takeAttempt(db, checksOf(userId), ofPasswordCheck);

export const refundPasswordCheck = (db: Db, userId: string): Promise<void> =>
  refund(db, checksOf(userId), ofPasswordCheck);

/** After a reset by mail the old guesses are worth nothing, and the owner must be able to sign in, wherever they are. */
export async function forgetGuesses(db: Db, email: string): Promise<void> {
  for (const counted of [ofAll(email), ofEachNetwork(email)]) await forgetAttempts(db, counted);
}

/** Whether a mail that anybody may ask for may go to `email` now. */
export const mayMail = async (db: Db, email: string): Promise<boolean> =>
  (await takeAttempt(db, { what: "mail", whose: email.toLowerCase() }, ofMailbox)) === null;

/** Whether a mail with a link to sign in may go to the user now. */
export const mayLink = async (db: Db, userId: string): Promise<boolean> =>
  (await takeAttempt(db, { what: "sign-in-link", whose: userId }, ofLinks)) === null;

/** Whether a mail about what happened in the account may go to the user now. */
export const mayNotify = async (db: Db, userId: string): Promise<boolean> =>
  (await takeAttempt(db, { what: "notice", whose: userId }, ofNotices)) === null;
