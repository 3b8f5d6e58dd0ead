"""Verifies v1 and v2 tokens, written from docs/FORMAT.md with Python's standard library alone.

    python3 verify.py VECTORS.json...    judges every case and exits with 1 if a verdict differs
"""

import hashlib
import hmac
import json
import re
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode

ACTIONS = {"activate": 1, "recover": 2}
# characters -> version, action byte (v1 has none)
LENGTHS = {86: (1, None), 104: (2, 1), 124: (2, 2)}
LAST_EXPIRY = 253402300799


class Refused(Exception):
    """Carries the stable code of the broken rule."""


def mac(key, *parts):
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


def derive(key, info):
    """HKDF-SHA-256 without salt; one block is all that is ever needed."""
    return mac(mac(bytes(32), key), info, b"\x01")


def decode(token):
    if len(token) not in LENGTHS or not re.fullmatch(r"[A-Za-z0-9_-]+", token, re.ASCII):
        raise Refused("ERR_TOKEN_MALFORMED")
    raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    if urlsafe_b64encode(raw).rstrip(b"=") != token.encode():
        raise Refused("ERR_TOKEN_MALFORMED")
    return LENGTHS[len(token)], raw


def check_code_shape(code, covered):
    if not covered:
        if code is not None:
            raise Refused("ERR_CODE_UNCHECKABLE")
    elif code is None:
        raise Refused("ERR_CODE_REQUIRED")
    elif not re.fullmatch(r"[0-9]{5}", code, re.ASCII):
        raise Refused("ERR_CODE_MALFORMED")


def verify_v1(raw, keys, action, code):
    check_code_shape(code, covered=action == "recover")
    secret, tag = raw[:32], raw[32:]
    message = b"/" + action.encode() + secret + (code or "").encode()
    if not any(hmac.compare_digest(mac(key, message), tag) for key in keys):
        raise Refused("ERR_TOKEN_SIGNATURE")
    return secret


def verify_v2(raw, action_byte, keys, action, code, now, tolerance):
    signed, secret, tag, code_tag = raw[:46], raw[14:46], raw[46:78], raw[78:]
    key_id, expires_at = raw[2:6], int.from_bytes(raw[6:14], "big")
    if raw[0] != 2 or raw[1] != action_byte or expires_at > LAST_EXPIRY:
        raise Refused("ERR_TOKEN_MALFORMED")
    for key in keys:
        named = derive(key, b"mailroom/v2 key id")[:4] == key_id
        if named and hmac.compare_digest(mac(derive(key, b"mailroom/v2 link"), signed), tag):
            break
    else:
        raise Refused("ERR_TOKEN_SIGNATURE")
    if ACTIONS[action] != action_byte:
        raise Refused("ERR_TOKEN_ACTION")
    if now >= expires_at + tolerance:
        raise Refused("ERR_TOKEN_EXPIRED")
    check_code_shape(code, covered=action == "recover")
    if code is not None:
        expected = mac(derive(key, b"mailroom/v2 code"), signed, code.encode())[:15]
        if not hmac.compare_digest(expected, code_tag):
            raise Refused("ERR_CODE_MISMATCH")
    return secret


def verify(token, keys, action, code=None, now=0, tolerance=0):
    """The secret of the token's row, or Refused."""
    (version, action_byte), raw = decode(token)
    if version == 1:
        return verify_v1(raw, keys, action, code)
    return verify_v2(raw, action_byte, keys, action, code, now, tolerance)


def judge(case, group):
    try:
        key = bytes.fromhex(group["key"])
        secret = verify(case["token"], [key], group["action"], case["code"], case.get("now", 0))
    except Refused as refused:
        return str(refused)
    return secret.hex()


def main(paths):
    judged, wrong = 0, 0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            groups = json.load(file)["groups"]
        for group in groups:
            for case in group["tests"]:
                expected = case["secret"] if case["result"] == "valid" else case["error"]
                verdict = judge(case, group)
                judged += 1
                if verdict != expected:
                    wrong += 1
                    print(f"tcId {case['tcId']} ({case['comment']}): expected {expected}, got {verdict}")
    print(f"{judged} cases judged, {wrong} differ")
    return 1 if wrong or not judged else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
