import type { TextChange } from "./message.ts";

const zoneHex = "07636f6e74656e74076578616d706c650000060001";
const nameHex = "0f5f61636d652d6368616c6c656e676507636f6e74656e74076578616d706c6500";
const textHex = "126162632d4445465f30313233343536373839";
const keyHex = "087376632d61636d6500";
const algorithmHex = "0b686d61632d73686132353600";
/** 2026-11-26T08:36:12Z, and five minutes. */
const timeHex = "00006b07ef7c012c";

/** A signature of hmac-sha256 as it stands in a message. */
const signatureHex = (mac: string): string =>
  `${keyHex}00fa00ff00000000003d${algorithmHex}${timeHex}0020${mac}123400000000`;

/** What Knot DNS 3.2.6 took and answered, of one key at one moment. */
export const recorded = {
  id: 0x1234,
  at: new Date("2026-11-26T08:36:12Z"),
  key: { name: "svc-acme", secret: Buffer.from("svc-test-secret-of-32-bytes-long") },
  change: {
    ...{ zone: "content.example", name: "_acme-challenge.content.example", text: "abc-DEF_0123456789" },
    is: "added",
  } satisfies TextChange,
  added: {
    sent: `123428000001000000010001${zoneHex}${nameHex}001000010000003c0013${textHex}${signatureHex("518828d4de8fdf5330cf85ca8b3deed783de79095170403067bdf8a8d47ff393")}`,
    answer: `1234a8000001000000000001${zoneHex}${signatureHex("d3375fdf47a35aeb428bec1d058948354ebef761c323ced27a5847ae0dcacaf2")}`,
  },
  removed: {
    sent: `123428000001000000010001${zoneHex}${nameHex}001000fe000000000013${textHex}${signatureHex("982d1a2147ccfd57d23a130055cfc91e24d9759ba8620f1a381f4c221a0140b3")}`,
    answer: `1234a8000001000000000001${zoneHex}${signatureHex("68118d4585812d79035bc46cd35c4e31d45c5076fe6748f8f86aabbdb0986114")}`,
  },
  /** To a key whose name it does not know, and to one whose secret is another. */
  badKey: `1234a8090001000000000001${zoneHex}056f746865720000fa00ff00000000001d${algorithmHex}${timeHex}0000123400110000`,
  badSignature: `1234a8090001000000000001${zoneHex}${keyHex}00fa00ff00000000001d${algorithmHex}${timeHex}0000123400100000`,
  /** To a zone that it does not have: without a signature. */
  notAuthoritative: "1234a80900010000000000000473686f70076578616d706c650000060001",
};
