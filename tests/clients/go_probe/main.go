// Asks a broker what tools in Go ask when they start, and prints the answers as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// What kversion skips by itself: requests between brokers, and telemetry, which is advertised only where it is on.
var skippedAlways = []int16{4, 5, 6, 7, 27, 56, 57, 58, 67, 71, 72}

func main() {
	probes := map[string]func(string, []string) (any, error){
		"version": version, "franz-go": franzGo, "sarama": saramaAdmin,
	}
	answer, err := probes[os.Args[1]](os.Args[2], os.Args[3:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(answer)
}

// version guesses the version from the API keys and their versions, as kcl and kminion do: from all of them, and
// from all but the keys that are given.
func version(address string, keys []string) (any, error) {
	skipped := skippedAlways
	for _, key := range keys {
		number, err := strconv.ParseInt(key, 10, 16)
		if err != nil {
			return nil, err
		}
		skipped = append(skipped, int16(number))
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	brokers, err := kadm.NewClient(client).ApiVersions(context.Background())
	if err != nil {
		return nil, err
	}
	broker := brokers.Sorted()[0]
	if broker.Err != nil {
		return nil, broker.Err
	}
	versions := kversion.FromApiVersionsResponse(broker.Raw())
	return []string{versions.VersionGuess(), versions.VersionGuess(kversion.SkipKeys(skipped...))}, nil
}

func franzGo(address string, _ []string) (any, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	all := kadm.NewACLs().AnyResource().Allow().AllowHosts().Operations().ResourcePatternType(kadm.ACLPatternAny)
	acls, aclsErr := admin.DescribeACLs(ctx, all)
	if aclsErr == nil && len(acls) > 0 {
		aclsErr = acls[0].Err
	}
	users, usersErr := admin.DescribeUserSCRAMs(ctx)
	tokens, tokensErr := admin.DescribeDelegationTokens(ctx)
	moves, movesErr := admin.ListPartitionReassignments(ctx, nil)
	return map[string]any{
		"acls":          outcome(len(acls), aclsErr),
		"users":         outcome(len(users), usersErr),
		"tokens":        outcome(len(tokens), tokensErr),
		"reassignments": outcome(len(moves), movesErr),
	}, nil
}

func saramaAdmin(address string, _ []string) (any, error) {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	admin, err := sarama.NewClusterAdmin([]string{address}, config)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	acls, aclsErr := admin.ListAcls(sarama.AclFilter{
		ResourceType:              sarama.AclResourceAny,
		ResourcePatternTypeFilter: sarama.AclPatternAny,
		Operation:                 sarama.AclOperationAny,
		PermissionType:            sarama.AclPermissionAny,
	})
	users, usersErr := admin.DescribeUserScramCredentials(nil)
	moves, movesErr := admin.ListPartitionReassignments("absent", []int32{0})
	return map[string]any{
		"acls":          outcome(len(acls), aclsErr),
		"users":         outcome(len(users), usersErr),
		"reassignments": outcome(len(moves), movesErr),
	}, nil
}

func outcome(count int, err error) any {
	if err != nil {
		return err.Error()
	}
	return count
}
