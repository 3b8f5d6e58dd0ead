-- Which accounts may get and use mails.

COMMENT ON FUNCTION mailroom.provisioned_accounts(text[], boolean) IS
    'Accounts that may be activated, locked for a redemption.';
COMMENT ON FUNCTION mailroom.active_accounts(text[], boolean) IS
    'Accounts that may be recovered and signed in to, locked for a redemption.';

UPDATE mailroom.actions SET eligibility = 'mailroom.provisioned_accounts(text[], boolean)'
    WHERE number = 1;

UPDATE mailroom.actions SET eligibility = 'mailroom.active_accounts(text[], boolean)'
    WHERE number IN (2, 5);

-- Reads the accounts in the statement that checks: to ask a function and to join its answers takes
-- a fifth of a claim longer. What is no id is nobody, and keeps nobody else from being found.
--
-- As a string, which is read by the search path of the function that calls it: a body that is bound
-- would keep the view from being made anew, as it has to be where a column of accounts gets another
-- type.
CREATE OR REPLACE FUNCTION mailroom.check_without_calls(places tid[], expiry_bound bigint,
    signable smallint[], binds boolean) RETURNS SETOF mailroom.checked_candidate
LANGUAGE sql STABLE AS $$
    SELECT checked.*
    FROM mailroom.candidates(places) AS locked
    LEFT JOIN LATERAL (
        SELECT email::text AS email, login::text AS name
        FROM mailroom.adopted_accounts AS accounts
        WHERE id = CASE
                WHEN octet_length(locked.subject_id) BETWEEN 1 AND 18
                    AND ltrim(locked.subject_id, '0123456789') = ''
                    AND locked.subject_id NOT LIKE '0_%'
                THEN locked.subject_id::bigint
            END
            AND CASE locked.eligibility
                WHEN 'mailroom.provisioned_accounts(text[],boolean)' THEN status = 'provisioned'
                WHEN 'mailroom.active_accounts(text[],boolean)' THEN status = 'active'
            END
        OFFSET 0
    ) AS present ON true
    CROSS JOIN LATERAL mailroom.check_candidate(
        locked,
        present.email,
        present.name,
        CASE
            WHEN locked.eligibility NOT IN ('mailroom.provisioned_accounts(text[],boolean)',
                'mailroom.active_accounts(text[],boolean)')
            THEN 'must be asked'
        END,
        expiry_bound,
        signable,
        binds
    ) AS checked
$$;
