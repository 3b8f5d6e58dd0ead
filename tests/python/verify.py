"""Verifies tokens of every version, by docs/reference/token-format.md and Python's standard
library alone.

    python3 verify.py VECTORS.json...    judges every case and exits with 1 if a verdict differs
"""

import hashlib
import hmac
import json
import re
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode

# name -> number, digits of the code; further actions come from the configuration
ACTIONS = {"activate": (1, 0), "recover": (2, 5)}
# characters -> version, whether a code tag follows, whether it is bound to a browser
LENGTHS = {
    86: (1, False, False),
    104: (2, False, False),
    124: (2, True, False),
    126: (2, False, True),
    146: (2, True, True),
    147: (3, False, False),
    168: (3, False, True),
}
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

NONCE = r"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]"


def binding_of(nonce):
    """What names the browser whose cookie has this value; None for what is no nonce."""
    if not isinstance(nonce, str) or not re.fullmatch(NONCE, nonce, re.ASCII):
        return None
    return hashlib.sha256(b"mailroom/browser\0" + nonce.encode()).digest()[:16]


def check_browser(raw, is_bound, nonce):
    binding = binding_of(nonce)
    if is_bound and (binding is None or not hmac.compare_digest(raw[14:30], binding)):
        raise Refused("ERR_TOKEN_OTHER_BROWSER")


def check_code_shape(code, digits):
    if digits == 0:
        if code is not None:
            raise Refused("ERR_CODE_UNCHECKABLE")
    elif code is None:
        raise Refused("ERR_CODE_REQUIRED")
    elif not re.fullmatch(r"[0-9]{%d}" % digits, code, re.ASCII):
        raise Refused("ERR_CODE_MALFORMED")


def verify_v1(raw, keys, action, code):
    if action not in ACTIONS:
        raise Refused("ERR_TOKEN_SIGNATURE")
    check_code_shape(code, ACTIONS[action][1])
    secret, tag = raw[:32], raw[32:]
    message = b"/" + action.encode() + secret + (code or "").encode()
    if not any(hmac.compare_digest(mac(key, message), tag) for key in keys):
        raise Refused("ERR_TOKEN_SIGNATURE")
    return secret


def read_header(raw, version, has_code_tag, is_bound, actions):
    """Reads action number, key id and expiry, if an action of this length has that number."""
    number, key_id, expires_at = raw[1] & 0x7F, raw[2:6], int.from_bytes(raw[6:14], "big")
    digits = {known: digits for known, digits in actions.values()}.get(number)
    fits = digits is not None and (version == 3 or has_code_tag == (digits > 0))
    if raw[0] != version or (raw[1] > 0x7F) != is_bound or not fits or expires_at > LAST_EXPIRY:
        raise Refused("ERR_TOKEN_MALFORMED")
    return number, key_id, expires_at


def check_link(number, expires_at, action, actions, now, tolerance):
    if actions[action][0] != number:
        raise Refused("ERR_TOKEN_ACTION")
    if now >= expires_at + tolerance:
        raise Refused("ERR_TOKEN_EXPIRED")


def verify_v2(raw, has_code_tag, is_bound, keys, action, code, nonce, now, tolerance, actions):
    number, key_id, expires_at = read_header(raw, 2, has_code_tag, is_bound, actions)
    end = 62 if is_bound else 46
    signed, secret = raw[:end], raw[end - 32 : end]
    tag, code_tag = raw[end : end + 32], raw[end + 32 :]
    for key in keys:
        named = derive(key, b"mailroom/v2 key id")[:4] == key_id
        if named and hmac.compare_digest(mac(derive(key, b"mailroom/v2 link"), signed), tag):
            break
    else:
        raise Refused("ERR_TOKEN_SIGNATURE")
    check_link(number, expires_at, action, actions, now, tolerance)
    check_browser(raw, is_bound, nonce)
    check_code_shape(code, actions[action][1])
    if code is not None:
        expected = mac(derive(key, b"mailroom/v2 code"), signed, code.encode())[:15]
        if not hmac.compare_digest(expected, code_tag):
            raise Refused("ERR_CODE_MISMATCH")
    return secret


def verify_v3(raw, is_bound, keys, action, code, nonce, now, tolerance, actions):
    number, key_id, expires_at = read_header(raw, 3, False, is_bound, actions)
    end = 62 if is_bound else 46
    message = b"mailroom/v3 link\0" + raw[:end]
    for key in keys:
        named = hashlib.sha256(b"mailroom/v3 key id\0" + key).digest()[:4] == key_id
        if named and is_signed(key, message, raw[end:]):
            break
    else:
        raise Refused("ERR_TOKEN_SIGNATURE")
    check_link(number, expires_at, action, actions, now, tolerance)
    check_browser(raw, is_bound, nonce)
    if code is not None:
        raise Refused("ERR_CODE_UNCHECKABLE")
    return raw[end - 32 : end]


# Ed25519 (RFC 8032, section 5.1): the field, the curve, the order of its group. Points are affine,
# which is slow and short.
P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
ORDER = 2**252 + 27742317777372353535851937790883648493
BASE_Y = 4 * pow(5, -1, P) % P


def add(a, b):
    product = D * a[0] * b[0] * a[1] * b[1] % P
    x = (a[0] * b[1] + a[1] * b[0]) * pow(1 + product, -1, P) % P
    y = (a[1] * b[1] + a[0] * b[0]) * pow(1 - product, -1, P) % P
    return x, y


def multiply(scalar, point):
    result = (0, 1)
    for bit in bin(scalar)[2:]:
        result = add(result, result)
        if bit == "1":
            result = add(result, point)
    return result


def point(encoded):
    """The point of a canonical encoding, of large order; None for any other."""
    y, sign = int.from_bytes(encoded, "little") % 2**255, encoded[31] >> 7
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - square) % P or (x == 0 and sign):
        return None
    found = (x if x % 2 == sign else P - x), y
    return None if multiply(8, found) == (0, 1) else found


BASE = point(BASE_Y.to_bytes(32, "little"))


def is_signed(key, message, signature):
    s = int.from_bytes(signature[32:], "little")
    public, commitment = point(key), point(signature[:32])
    if s >= ORDER or public is None or commitment is None:
        return False
    hashed = hashlib.sha512(signature[:32] + key + message).digest()
    challenge = int.from_bytes(hashed, "little") % ORDER
    return multiply(s, BASE) == add(commitment, multiply(challenge, public))


def verify(token, keys, action, code=None, nonce=None, now=0, tolerance=0, actions=ACTIONS):
    """Returns the secret of the token's row or raises Refused.

    The keys are shared ones for v1 and v2, public ones for v3.
    """
    (version, has_code_tag, is_bound), raw = decode(token)
    if version == 1:
        return verify_v1(raw, keys, action, code)
    if version == 2:
        given = (keys, action, code, nonce, now, tolerance, actions)
        return verify_v2(raw, has_code_tag, is_bound, *given)
    return verify_v3(raw, is_bound, keys, action, code, nonce, now, tolerance, actions)


def judge(case, group):
    try:
        key = bytes.fromhex(group.get("key") or group["public_key"])
        further = group.get("actions", {}).items()
        known = {name: (action["number"], action["digits"]) for name, action in further}
        known = {**ACTIONS, **known}
        code, nonce, now = case["code"], case.get("nonce"), case.get("now", 0)
        secret = verify(case["token"], [key], group["action"], code, nonce, now, actions=known)
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
                    name = f"tcId {case['tcId']} ({case['comment']})"
                    print(f"{name}: expected {expected}, got {verdict}")
    print(f"{judged} cases judged, {wrong} differ")
    return 1 if wrong or not judged else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
