// A member of a group. sarama pushes records; the scenario pulls them.
package main

import (
	"context"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

type member struct {
	group    string
	topic    string
	consumer sarama.ConsumerGroup
	cancel   context.CancelFunc
	ended    chan struct{}
	records  chan *sarama.ConsumerMessage

	lock    sync.Mutex
	session sarama.ConsumerGroupSession
	next    map[int32]int64
}

func join(bootstrap []string, r *request) (*member, error) {
	config := common()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	if r.Instance != nil {
		config.Consumer.Group.InstanceId = *r.Instance
	}
	if r.Isolation == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumerGroup(bootstrap, r.Group, config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	joined := &member{group: r.Group, topic: r.Topic, consumer: consumer, cancel: cancel,
		ended: make(chan struct{}), records: make(chan *sarama.ConsumerMessage), next: map[int32]int64{}}
	go joined.run(ctx)
	return joined, nil
}

// A session ends with each rebalance, and with each broker that goes away.
func (m *member) run(ctx context.Context) {
	defer close(m.ended)
	for ctx.Err() == nil {
		if err := m.consumer.Consume(ctx, []string{m.topic}, m); err != nil {
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.keep(session)
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.keep(nil)
	return nil
}

func (m *member) keep(session sarama.ConsumerGroupSession) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.session = session
}

func (m *member) current() sarama.ConsumerGroupSession {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.session
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case in, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			select {
			case m.records <- in:
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func (m *member) poll(seconds float64) any {
	select {
	case in := <-m.records:
		m.next[in.Partition] = in.Offset + 1
		return []any{map[string]any{"partition": in.Partition, "offset": in.Offset, "value": text(in.Value)}}
	case <-time.After(time.Duration(seconds * float64(time.Second))):
		return []any{}
	}
}

func (m *member) assigned() int {
	if session := m.current(); session != nil {
		return len(session.Claims()[m.topic])
	}
	return 0
}

// Marks anew what was read: the session in which it was read may be over.
func (m *member) commit() {
	if session := m.current(); session != nil {
		for partition, offset := range m.next {
			session.MarkOffset(m.topic, partition, offset, "")
		}
		session.Commit()
	}
}

func (m *member) metadata() *sarama.ConsumerGroupMetadata {
	metadata := &sarama.ConsumerGroupMetadata{GroupID: m.group, GenerationID: -1}
	if session := m.current(); session != nil {
		metadata.GenerationID, metadata.MemberID = session.GenerationID(), session.MemberID()
	}
	return metadata
}

func (m *member) close() error {
	m.cancel()
	<-m.ended
	return m.consumer.Close()
}
